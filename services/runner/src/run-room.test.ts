import { beforeEach, expect, test } from '@jest/globals';
import { type ByteBudget, createByteBudget } from '@wellspring/core/byte-budget';
import { createFakeClock, type FakeClock } from '@wellspring/testing/fake-clock';
import { createOwnerCosts, msOf, type OwnerCosts } from './owner-costs.ts';
import { createRunRooms, type OpenRunRoom, type RunRoom } from './run-room.ts';

const KB = 1024;
const MB = 1024 * KB;

let clock: FakeClock;
let memory: ByteBudget;
let costs: OwnerCosts;
let open: OpenRunRoom;

function createRooms(bytes: number): void {
  memory = createByteBudget(bytes);
  open = createRunRooms(memory, costs);
}

beforeEach(() => {
  clock = createFakeClock();
  costs = createOwnerCosts(clock, clock.now);
  createRooms(512 * KB);
});

function add(room: RunRoom, bytes: number): void {
  room.add(bytes);
  room.keep();
}

/** Output that arrives at once. @returns whether the code has to wait */
function put(room: RunRoom, bytes: number): boolean {
  add(room, bytes);
  return room.make(0) !== undefined;
}

/** Output that arrives in pieces, each as soon as there is room. */
async function putPieces(room: RunRoom, pieces: number, bytes: number): Promise<void> {
  for (let n = 0; n < pieces; n += 1) {
    for (let later = room.make(bytes); later; later = room.make(bytes)) await later;
    add(room, bytes);
  }
}

test('small runs take nothing of the budget and pay at their end', () => {
  using room = open('u_1');
  for (let n = 0; n < 10; n += 1) expect(put(room, 400)).toBe(false);
  expect(memory.used).toBe(0);
  expect(costs.isCostly('u_1')).toBe(false);
});

test('output of an owner stays within half of the budget until its runs are committed, and the rest waits', async () => {
  const rooms = Array.from({ length: 7 }, () => open('u_1'));
  const waits = rooms.map((room) => put(room, 64 * KB));
  expect(waits).toEqual([false, false, false, false, false, true, true]);
  await clock.advance(0);
  // One run of an owner may exceed it.
  expect(rooms.map((room) => room.make(0) !== undefined).indexOf(true)).toBe(6);
  expect(memory.used).toBeGreaterThan(memory.total / 3);
  expect(memory.used).toBeLessThanOrEqual(memory.total / 2);
  const other = open('u_2');
  expect(put(other, 64 * KB)).toBe(false);
  other.release();
  rooms[0]!.release();
  await rooms[6]!.make(0);
  expect(rooms[6]!.make(0)).toBeUndefined();
  for (const room of rooms) room.release();
  expect(memory.used).toBe(0);
});

test('a run whose owner has paid its debt at the moment it asks for room gets further room later', async () => {
  const answers = [false, true];
  open = createRunRooms(memory, { ...costs, isSettled: () => answers.shift() ?? true });
  using room = open('u_1');
  add(room, 64 * KB);
  await room.make(0);
  add(room, 64 * KB);
  expect(room.make(0)).toBeUndefined();
});

test('output that is dropped leaves its memory to what follows', () => {
  using room = open('u_1');
  for (let n = 0; n < 1_000; n += 1) {
    room.add(64 * KB);
    expect(room.make(0)).toBeUndefined();
    room.add(-64 * KB);
  }
  expect(memory.used).toBeLessThanOrEqual(64 * KB);
});

test('room is made before a large frame is read', () => {
  using room = open('u_1');
  expect(room.make(200 * KB)).toBeUndefined();
  expect(memory.used).toBeGreaterThanOrEqual(180 * KB);
});

test('runs that hold the whole budget and need more end all the same', async () => {
  let ended = 0;
  const runs = Array.from({ length: 12 }, async (_, n) => {
    using room = open(`u_${n % 3}`);
    await putPieces(room, 16, 10 * KB);
    ended += 1;
  });
  for (let s = 0; s < 100 && ended < runs.length; s += 1) await clock.advance(1_000);
  expect(ended).toBe(runs.length);
  expect(memory.used).toBe(0);
});

test('a run that is given up while it waits takes nothing', async () => {
  const holder = memory.tryTake(memory.total)!;
  const rooms = ['u_1', 'u_2', 'u_3'].map(open);
  const waits = rooms.map((room) => room.make(100 * KB));
  for (const room of rooms) room.release();
  await Promise.all(waits);
  holder();
  expect(memory.used).toBe(0);
});

test('runs of an owner that emit much at once take their share of time one after the other', async () => {
  createRooms(1024 * MB);
  let ended = 0;
  const runs = Array.from({ length: 20 }, async () => {
    using room = open('u_1');
    await putPieces(room, 32, 64 * KB);
    room.charge({ bytes: 2 * MB });
    ended += 1;
  });
  const began = clock.now();
  for (let n = 0; n < 1_000 && ended < runs.length; n += 1) {
    // Another owner has runs.
    costs.charge('u_2', {});
    await clock.advance(100);
  }
  await Promise.all(runs);
  // A quarter of the time, except for what is allowed at once.
  expect(clock.now() - began).toBeGreaterThan(2 * runs.length * msOf({ bytes: 2 * MB }));
  const victim = open('u_2');
  expect(put(victim, MB)).toBe(false);
});

test('a single run does not wait for what it has paid itself', () => {
  createRooms(1024 * MB);
  using room = open('u_1');
  for (let n = 0; n < 16; n += 1) expect(put(room, MB)).toBe(false);
});

test('what was paid in advance counts, and the rest is given back', async () => {
  createRooms(1024 * MB);
  const paid = open('u_1');
  put(paid, 4 * MB);
  const cost = { events: 3, bytes: 3 * MB };
  paid.charge(cost);
  paid.release();
  costs.charge('u_2', cost);
  const ends = ['u_1', 'u_2'].map(async (ownerId) => {
    await costs.settled(ownerId);
    return clock.now();
  });
  const began = clock.now();
  await clock.advance(30_000);
  const [end, same] = await Promise.all(ends);
  expect(end).toBeGreaterThan(began);
  expect(end).toBe(same);
});

test('data that the code is given is paid, and while its owner is over its share, the code waits', async () => {
  using room = open('u_1');
  const { signal } = new AbortController();
  const isSettled = async () => {
    let settled = false;
    void room.settled(signal).then(() => {
      settled = true;
    });
    await clock.advance(0);
    return settled;
  };
  for (let n = 0; n < 1000; n += 1) room.give(400);
  expect(await isSettled()).toBe(true);
  room.give(6 * MB);
  expect(await isSettled()).toBe(true);
  for (let n = 0; n < 10; n += 1) room.give(6 * MB);
  expect(await isSettled()).toBe(false);
  await clock.advance(10_000);
  expect(await isSettled()).toBe(true);
});
