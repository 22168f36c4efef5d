// Sends back every chunk that comes over descriptor 3: the least that a round trip between two Node.js processes costs.
import net from 'node:net';

const socket = new net.Socket({ fd: 3 });
socket.on('data', (chunk) => socket.write(chunk));
socket.on('close', () => process.exit(0));
socket.write('r');
