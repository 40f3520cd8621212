/**
 * Their tests often wait: for processes to start, for leases to lapse, for servers to come back. `npm test` runs them as
 * one, so that some of them work while others wait, and no worker is idle before all of them are done.
 */
export const waitingSuites = ['crash', 'interfaces', 'docs']
