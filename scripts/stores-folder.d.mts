export declare function storesFolder(): string
