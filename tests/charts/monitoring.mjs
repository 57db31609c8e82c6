// Validates the ServiceMonitors and PrometheusRules of the files given against the operator's own types.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
const require = createRequire(process.env.NODE_PATH + '/');
const { loadAll } = require('js-yaml');
const models = await import(process.env.NODE_PATH + '/@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/index.js');
for (const file of process.argv.slice(2)) {
  for (const manifest of loadAll(readFileSync(file, 'utf8'))) {
    if (manifest?.apiVersion === 'monitoring.coreos.com/v1') new models[manifest.kind](manifest).validate();
  }
}
