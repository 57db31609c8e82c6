// The emulated cluster with a sidecar beside each server, on free ports.
const { spawn } = require("child_process");
const net = require("net");

const children = [];

/** Starts the binary; its standard output and error, as they grow. */
function start(args, environment = {}) {
    const child = spawn(process.env.BINARY, args, { env: { ...process.env, ...environment } });
    const said = { text: "" };
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (said.text += data));
    children.push(child);
    return { child, said };
}

/** Asks until the answer is truthy. */
async function until(what, ask, ms = 20000) {
    const end = Date.now() + ms;
    while (Date.now() < end) {
        const answer = await Promise.resolve().then(ask).catch(() => null);
        if (answer) return answer;
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`gave up waiting until ${what}`);
}

async function freePorts(count) {
    const servers = await Promise.all([...Array(count)].map(() => new Promise((resolve) => {
        const server = net.createServer().listen(0, "127.0.0.1", () => resolve(server));
    })));
    const ports = servers.map((server) => server.address().port);
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
    return ports;
}

async function cluster() {
    const { said } = start(["emulate", "--port", "0", "--tables", "TL,TI,TW"]);
    const control = (await until("the emulator runs", () => said.text.match(/http:\/\/[0-9.:]+\/fault/)))[0];
    const servers = [...said.text.matchAll(/^ +\d+ +(http:\/\/[0-9.:]+)/gm)].map((match) => match[1]);
    const ports = await freePorts(2 * servers.length);
    const peers = servers.map((server, i) => `{ server = "${server}", sidecar = "http://127.0.0.1:${ports[2 * i + 1]}" }`);
    const sidecars = servers.map((server, i) => {
        const [client, admin] = [ports[2 * i], ports[2 * i + 1]].map((port) => `127.0.0.1:${port}`);
        const environment = { KSQLDB_SIDECAR__PEERS__DISCOVERY: "static", KSQLDB_SIDECAR__PEERS__STATIC: `[${peers.join(", ")}]` };
        const { child } = start(["run", "--server", server, "--listen", client, "--admin", admin], environment);
        return { server: new URL(server).host, client: `http://${client}`, admin: `http://${admin}`, child };
    });
    for (const { admin } of sidecars) {
        await until("a sidecar knows the tables", async () => {
            const overview = await (await fetch(`${admin}/overview`)).json();
            return overview.servers.length === servers.length && overview.tables.length >= 3;
        });
    }
    return { sidecars, fault: (fault) => fetch(control, { method: "POST", body: JSON.stringify(fault) }) };
}

function stop() {
    for (const child of children) child.kill();
}

module.exports = { cluster, stop, until, start };
