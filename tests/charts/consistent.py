"""Checks what no schema knows: that the manifests of a release fit together and keep the promises about privileges.

python consistent.py FILE: the manifests, with the workload among them.
"""

import sys

import yaml


def main(file):
    manifests = [m for m in yaml.safe_load_all(open(file)) if m]
    of = lambda kind: [m for m in manifests if m["kind"] == kind]
    (workload,) = of("StatefulSet") + of("Deployment")
    pod = workload["spec"]["template"]
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    containers = {container["name"]: container for container in spec["containers"]}
    ports = [port for container in spec["containers"] for port in container.get("ports", [])]
    selects = lambda selector, of_labels: selector and selector.items() <= of_labels.items()

    services = of("Service")
    for service in services:
        assert selects(service["spec"]["selector"], labels), f"{service['metadata']['name']} selects no pod"
        for port in service["spec"]["ports"]:
            target = port.get("targetPort", port["port"])
            assert any(target in (p.get("name"), p["containerPort"]) for p in ports), f"no container listens on {target}"
    for budget in of("PodDisruptionBudget"):
        assert selects(budget["spec"]["selector"]["matchLabels"], labels), "the budget selects no pod"
    for policy in of("NetworkPolicy"):
        assert selects(policy["spec"]["podSelector"]["matchLabels"], labels), "the policy selects no pod"
    for monitor in of("ServiceMonitor"):
        found = [s for s in services if selects(monitor["spec"]["selector"]["matchLabels"], s["metadata"]["labels"])]
        assert len(found) == 1, f"the monitor selects {len(found)} services"
        names = {port["name"] for port in found[0]["spec"]["ports"]}
        assert {end["port"] for end in monitor["spec"]["endpoints"]} <= names, "the monitor's port is not the service's"
    for constraint in spec["topologySpreadConstraints"]:
        assert selects(constraint["labelSelector"]["matchLabels"], labels), "the spread counts no pod"

    volumes = {volume["name"] for volume in spec["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
    for name, container in containers.items():
        assert container.get("image"), f"{name} has no image: nothing else is of that name"
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes, f"{name} mounts no volume"
    config = {m["metadata"]["name"] for m in of("ConfigMap")}
    used = {v["configMap"]["name"] for v in spec["volumes"] if v["name"] == "ksqldb-sidecar-config"}
    assert used and used <= config, "the configuration is not the release's"

    sidecar = containers["ksqldb-sidecar"]
    allowed = sidecar["securityContext"]
    assert allowed["runAsNonRoot"] and allowed["readOnlyRootFilesystem"], "root, or a writable root"
    assert not allowed["allowPrivilegeEscalation"] and not allowed["privileged"], "privileges"
    assert allowed["capabilities"] == {"drop": ["ALL"]}, "capabilities"
    assert not spec.get("hostNetwork") and not spec.get("hostPID"), "the host's namespaces"
    probes = {probe: sidecar[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")}
    assert probes["livenessProbe"] == {"path": "/healthz", "port": "sidecar-admin"}
    assert probes["readinessProbe"] == {"path": "/readyz", "port": "sidecar-admin"}

    given = {}
    for container in spec["containers"]:
        given |= {entry["name"]: entry.get("value") for entry in container.get("env", [])}
    for name in ("HEARTBEAT_ENABLE", "LAG_REPORTING_ENABLE", "QUERY_PULL_ENABLE_STANDBY_READS"):
        assert given[f"KSQL_KSQL_{name}"] == "true", f"standby reads need {name}"
    assert given["KSQL_KSQL_STREAMS_NUM_STANDBY_REPLICAS"] == "1", "no standby"
    listener = given["KSQL_KSQL_ADVERTISED_LISTENER"]
    if workload["kind"] == "StatefulSet":
        assert f".{workload['spec']['serviceName']}:" in listener, f"{listener} is not under the pods' service"


main(sys.argv[1])
