{{/* These names and `-peers` stay within the 63 characters of a label. */}}
{{- define "ksqldb-sidecar.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "ksqldb-sidecar.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* Labels of the ksqlDB pods. */}}
{{- define "ksqldb-sidecar.selectorLabels" -}}
{{- if .Values.example.enabled -}}
app.kubernetes.io/name: ksqldb-server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- else if .Values.selector -}}
{{ toYaml .Values.selector }}
{{- else -}}
{{- fail "set selector to the labels of the ksqlDB pods, or example.enabled to true" -}}
{{- end -}}
{{- end -}}

{{/* The whole sidecar.toml. */}}
{{- define "ksqldb-sidecar.config" -}}
{{- $ports := .Values.ports -}}
{{- $own := dict
  "listen" (dict "client" (printf "0.0.0.0:%v" $ports.client) "admin" (printf "0.0.0.0:%v" $ports.admin))
  "server" (dict "url" (printf "http://localhost:%v" $ports.server))
  "peers" (dict "sidecar_port" (int $ports.admin)) -}}
{{ mergeOverwrite $own (deepCopy .Values.config) | toToml }}
{{- end -}}

{{/* Seconds that the pod is given to end; what is too short would cut off requests that shutdown.grace allows. */}}
{{- define "ksqldb-sidecar.terminationGracePeriodSeconds" -}}
{{- $grace := dig "shutdown" "grace" "30s" .Values.config | trimSuffix "s" | int -}}
{{- $least := add .Values.preStopSleepSeconds $grace 5 -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) (int $least) -}}
{{- fail (printf "terminationGracePeriodSeconds must be at least %d: preStopSleepSeconds + config.shutdown.grace + 5" $least) -}}
{{- end -}}
{{ .Values.terminationGracePeriodSeconds }}
{{- end -}}

{{/* Annotations of the pod: a change of the configuration restarts the sidecars, one pod after the other. */}}
{{- define "ksqldb-sidecar.podAnnotations" -}}
checksum/ksqldb-sidecar: {{ include "ksqldb-sidecar.config" . | sha256sum }}
{{- end -}}

{{/* A list with the container. */}}
{{- define "ksqldb-sidecar.container" -}}
- name: ksqldb-sidecar
  image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [run, --config, /etc/ksqldb-sidecar/config/sidecar.toml]
  ports:
    - name: sidecar
      containerPort: {{ .Values.ports.client }}
    - name: sidecar-admin
      containerPort: {{ .Values.ports.admin }}
  livenessProbe:
    httpGet:
      path: /healthz
      port: sidecar-admin
    timeoutSeconds: 2
  readinessProbe:
    httpGet:
      path: /readyz
      port: sidecar-admin
    timeoutSeconds: 2
    periodSeconds: 5
  lifecycle:
    preStop:
      exec:
        command:
          - /usr/bin/ksqldb-sidecar
          - drain
          - --admin=http://127.0.0.1:{{ .Values.ports.admin }}
          - --wait={{ .Values.preStopSleepSeconds }}s
          - --at-least={{ .Values.preStopSleepSeconds }}s
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    privileged: false
    capabilities:
      drop: [ALL]
    seccompProfile:
      type: RuntimeDefault
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    - name: ksqldb-sidecar-config
      mountPath: /etc/ksqldb-sidecar/config
      readOnly: true
    {{- if .Values.secret }}
    - name: ksqldb-sidecar-secret
      mountPath: /etc/ksqldb-sidecar/secret
      readOnly: true
    {{- end }}
{{- end -}}

{{/* A list with the volumes of the container. */}}
{{- define "ksqldb-sidecar.volumes" -}}
- name: ksqldb-sidecar-config
  configMap:
    name: {{ include "ksqldb-sidecar.fullname" . }}
{{- with .Values.secret }}
- name: ksqldb-sidecar-secret
  secret:
    secretName: {{ . }}
{{- end }}
{{- end -}}

{{/* A list of EnvVars of the ksqlDB server: what standby reads need, and a name under which the others find it. */}}
{{- define "ksqldb-sidecar.serverEnv" -}}
- name: KSQL_KSQL_HEARTBEAT_ENABLE
  value: "true"
- name: KSQL_KSQL_LAG_REPORTING_ENABLE
  value: "true"
- name: KSQL_KSQL_QUERY_PULL_ENABLE_STANDBY_READS
  value: "true"
- name: KSQL_KSQL_STREAMS_NUM_STANDBY_REPLICAS
  value: "1"
{{- $service := .Values.serverService -}}
{{- if .Values.example.enabled -}}
{{- $service = printf "%s-peers" (include "ksqldb-sidecar.fullname" .) -}}
{{- end }}
- name: POD_ADDRESS
  valueFrom:
    fieldRef:
      fieldPath: {{ if $service }}metadata.name{{ else }}status.podIP{{ end }}
- name: KSQL_KSQL_ADVERTISED_LISTENER
  value: http://$(POD_ADDRESS){{ with $service }}.{{ . }}{{ end }}:{{ .Values.ports.server }}
{{- end -}}

{{/* What the pod needs besides container and volumes. The replicas of a partition shall be on different nodes, and in different
     zones where there are some. */}}
{{- define "ksqldb-sidecar.podSpec" -}}
terminationGracePeriodSeconds: {{ include "ksqldb-sidecar.terminationGracePeriodSeconds" . }}
{{- if .Values.shareProcessNamespace }}
shareProcessNamespace: true
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "ksqldb-sidecar.selectorLabels" $ | nindent 8 }}
  {{- end }}
{{- end -}}
