/** `npm test` is quick on a server: what does not depend on the engine is left to SQLite and to `npm run test:postgres`. */
export const isQuick = Boolean(process.env.HOLDFAST_TEST_QUICK)
