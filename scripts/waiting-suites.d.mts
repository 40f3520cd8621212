export declare const waitingSuites: readonly string[]
