/**
 * Takes one sample and reports the result: to its parent, or if run alone on standard output, as for a profile:
 * node --cpu-prof bench/sample.mjs drainByCallers '{"items":20000,"durability":"normal","callers":10,"warmMs":500,"warmJobs":2000,"measureMs":1500}'
 */
import { samples } from './samples/index.mjs'

const [name, parameters] = process.argv.slice(2)
const result = await samples[name](JSON.parse(parameters))
if (process.send) process.send(result, () => process.disconnect())
else console.log(JSON.stringify(result))
