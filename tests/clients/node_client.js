// npm ksqldb-client: HTTP/2 by prior knowledge, /query-stream.
const Client = require("ksqldb-client");
const assert = require("assert");
const { hostname, port } = new URL(process.argv[2]);

(async () => {
    const client = new Client({ host: `http://${hostname}`, port: Number(port) });
    await client.connect();
    const existing = await client.query("SELECT K FROM TL WHERE K='k1';");
    assert.deepStrictEqual(existing.data.rows.map((row) => row.K), ["k1"], JSON.stringify(existing));
    const absent = await client.query("SELECT K FROM TL WHERE K='nobody';");
    assert.strictEqual(absent.data.rows.length, 0, JSON.stringify(absent));
    const windowed = await client.query("SELECT K, WINDOWSTART FROM TW WHERE K='k1';");
    assert(windowed.data.rows.length >= 1, JSON.stringify(windowed));
    await new Promise((resolve, reject) => {
        client.streamQuery("SELECT K, V FROM S EMIT CHANGES;", (data) => {
            if (data.rows && data.rows.length) resolve();
        }).catch(reject);
        setTimeout(() => reject(new Error("no row of the push query in 20 s")), 20000).unref();
    });
    await client.disconnect();
    process.exit(0);
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
