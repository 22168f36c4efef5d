import { compareRoad } from './src/road.ts';

await compareRoad();
