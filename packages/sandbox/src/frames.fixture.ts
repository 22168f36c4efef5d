import { type FrameType, HEADER_BYTES, putFrame } from './protocol.ts';

/** A frame whose content is this value as JSON. */
export function encodeFrame(type: FrameType, content: unknown): Buffer {
  const json = JSON.stringify(content);
  const frame = Buffer.allocUnsafe(HEADER_BYTES + Buffer.byteLength(json));
  putFrame(frame, 0, type, json, undefined);
  return frame;
}
