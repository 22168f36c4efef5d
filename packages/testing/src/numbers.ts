/** The numbers from 0 to below `count`. */
export const numbers = (count: number): number[] => [...Array(count).keys()];
