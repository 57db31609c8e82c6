// The status page as an operator meets it. Each check names what it expects; pictures are for people to look at.
const { chromium } = require("playwright-core");
const assert = require("assert");
const path = require("path");
const { cluster, stop, until } = require("./cluster.js");

let passed = 0;
let failed = 0;
async function check(what, test) {
    try {
        await test();
        passed += 1;
    } catch (error) {
        failed += 1;
        console.log(`failed: ${what}\n${error.stack}`);
    }
}

const query = (sidecar, ksql, headers = {}) =>
    fetch(`${sidecar.client}/query`, { method: "POST", headers, body: JSON.stringify({ ksql }) }).then((response) => response.text());
const picture = (page, name) => page.screenshot({ path: path.join(process.env.PICTURES, `${name}.png`), fullPage: true });
const text = (page, selector) => page.locator(selector).innerText();

(async () => {
    const { sidecars, fault } = await cluster();
    const [local, , third] = sidecars;
    const traffic = setInterval(() => {
        const number = Math.floor(Math.random() * 30);
        query(local, `SELECT * FROM TL WHERE K='k${number}';`).catch(() => {});
    }, 25);
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
    const page = await context.newPage();
    const problems = [];
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
    page.on("pageerror", (error) => problems.push(String(error)));
    page.on("request", (request) => new URL(request.url()).origin === local.admin || problems.push(`asks ${request.url()}`));

    await page.goto(local.admin);
    await check("it says at a glance that all is well", async () => {
        await page.locator("#verdict.good").waitFor({ timeout: 30000 });
        assert.match(await text(page, "#verdict-text"), /All 3 servers live/);
        assert.match(await text(page, "#connection"), /^live$/);
    });
    await check("servers and sidecars are shown with their states", async () => {
        const rows = await page.locator("#servers-body tr").allInnerTexts();
        assert.strictEqual(rows.length, 3);
        for (const { server } of sidecars) assert(rows.some((row) => row.includes(server)), server);
        assert(rows.every((row) => row.includes("live")), rows.join());
        assert(rows.some((row) => row.includes("this one")) && rows.filter((row) => /answers, for/.test(row)).length === 2, rows.join());
    });
    await check("each partition is shown with its active and its standby", async () => {
        for (const name of ["TL", "TI", "TW"]) assert.strictEqual(await page.locator(`.table[data-key=${name}] .cell`).count(), 6);
        assert.strictEqual(await page.locator(".table[data-key=TL] .cell .mark").count(), 6);
        assert.match(await page.locator(".table[data-key=TL] .cell").first().getAttribute("aria-label"), /^Partition 0: active .*, standby .* (current|behind)/);
    });
    await check("traffic comes in by itself", async () => {
        await until("requests are drawn", async () => Number(await page.locator(".chart").first().getAttribute("data-most")) > 5);
        assert.match(await page.locator(".chart").nth(1).innerText(), /Failed\s+0\/s\s+none/);
    });

    await check("decisions are listed, filtered and explained", async () => {
        await query(local, "SELECT * FROM TL WHERE K IN ('k1', 'k2');", { "X-Request-Id": "find-me" });
        await page.fill("#filter-text", "find-me");
        const found = page.locator("#decisions details");
        await until("the one is left", async () => (await found.count()) === 1);
        assert.match(await found.innerText(), /lookup-many/);
        await page.fill("#filter-text", "TL/");
        await until("lookups are left", async () => (await found.count()) > 5);
        await page.click("#pause");
        await found.first().locator("summary").click();
        const explanation = await found.first().locator(".explanation").innerText();
        assert.match(explanation, /answered 200/);
        assert.match(explanation, /caught_up_active|freshest/);
        assert.strictEqual(await found.first().locator(".explanation tbody tr").count(), 2);
        assert(!/k1|SELECT/.test(await page.locator("#decisions").innerText()), "no keys");
    });
    await picture(page, "well");
    await check("a statement is explained", async () => {
        await page.fill("#statement", "SELECT * FROM TL WHERE K='<b>k1</b>';");
        await page.click("#explain button");
        await page.locator("#explanation tbody tr").first().waitFor();
        assert.match(await text(page, "#explanation"), /table TL, partition \d of 6/);
        await page.fill("#statement", "SELECT * FROM NOWHERE WHERE K='1';");
        await page.keyboard.press("Tab");
        await page.keyboard.press("Enter");
        await until("the reason is shown", async () => /unknown_table/.test(await text(page, "#explanation")));
    });
    await check("the keyboard suffices", async () => {
        await page.locator("#tables .cell").first().focus();
        await page.keyboard.press("ArrowRight");
        await page.keyboard.press("ArrowRight");
        const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label"));
        assert.match(await focused(), /^Partition 2:/);
        await page.keyboard.press("End");
        assert.match(await focused(), /^Partition 5:/);
        await page.keyboard.press("Home");
        await page.keyboard.press("Enter");
        const detail = page.locator(".detail:visible");
        assert.match(await detail.innerText(), /partition 0/);
        await new Promise((resolve) => setTimeout(resolve, 2200)); // two events later focus and details are still there
        assert.match(await focused(), /^Partition 0:/);
        assert.strictEqual(await detail.locator("tbody tr").count(), 2);
        await page.keyboard.press("Escape");
        assert.strictEqual(await detail.count(), 0);
        await page.locator("#filter-text").focus();
        const kinds = [];
        for (let step = 0; step < 5; step += 1) {
            await page.keyboard.press("Tab");
            kinds.push(await page.evaluate(() => document.activeElement.id || document.activeElement.tagName));
        }
        assert.deepStrictEqual(kinds.slice(0, 4), ["filter-class", "filter-outcome", "filter-hard", "pause"]);
        assert(["SUMMARY", "decisions"].includes(kinds[4]), kinds[4]);
    });

    await page.fill("#filter-text", "");
    await page.click("#pause");
    await check("a killed server is seen within a second", async () => {
        const row = page.locator("#servers-body tr", { hasText: third.server });
        await page.evaluate((name) => {
            const row = [...document.querySelectorAll("#servers-body tr")].find((one) => one.textContent.includes(name));
            new MutationObserver(() => { if (row.textContent.includes("dead")) window.seenDead ??= Date.now(); })
                .observe(row, { subtree: true, childList: true, characterData: true, attributes: true });
        }, third.server);
        const killed = Date.now();
        await fault({ crash: 2 });
        await row.locator(".badge.dead").waitFor({ timeout: 10000 });
        const took = (await page.evaluate(() => window.seenDead)) - killed;
        assert(took < 1000, `${took} ms`);
        console.log(`killed server shown after ${took} ms`);
        assert(!(await page.locator("#verdict.good").count()), await text(page, "#verdict"));
        assert.match(await text(page, "#verdict"), new RegExp(`${third.server} has been dead`));
        await until("the loss shows in the grid", async () => (await page.locator(".cell.risk, .cell.lost").count()) > 0);
    });
    await check("lost sidecars are seen too", async () => {
        third.child.kill("SIGKILL");
        await until("it is silent", async () => /silent, for/.test(await text(page, "#servers-body")), 5000);
    });
    await picture(page, "killed");

    await check("a narrow window needs no scrolling sideways, light or dark", async () => {
        for (const [width, colorScheme] of [[360, "light"], [360, "dark"], [700, "dark"], [1280, "dark"]]) {
            await page.setViewportSize({ width, height: 800 });
            await page.emulateMedia({ colorScheme });
            const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
            assert(inner <= outer, `${inner} > ${outer} at ${width}`);
            const back = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
            assert.strictEqual(Math.max(...back) < 100, colorScheme === "dark", `${back}`);
            await picture(page, `${colorScheme}-${width}`);
        }
    });
    await check("a sidecar that is gone is not taken for a quiet one", async () => {
        assert.deepStrictEqual(problems, []);
        local.child.kill("SIGTERM");
        await until("its news are called old", async () => /no news: what is shown is old, for/.test(await text(page, "#connection")), 15000);
        assert(problems.every((problem) => /ERR_|event-stream|EventSource/.test(problem)), problems.join());
    });
    clearInterval(traffic);
    await browser.close();
})().catch((error) => {
    failed += 1;
    console.log(error.stack);
}).finally(() => {
    stop();
    console.log(`${passed} passed, ${failed} failed`);
    process.exit(failed === 0 ? 0 : 1);
});
