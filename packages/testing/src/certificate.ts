import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A new key with a self-signed certificate for `localhost` and 127.0.0.1; the latter also as `cert.pem` of the directory. */
export function createCertificate(directory: string): { key: Buffer; cert: Buffer } {
  const [key, cert] = [join(directory, 'key.pem'), join(directory, 'cert.pem')];
  const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'].concat(
    ['-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'],
    ['-keyout', key, '-out', cert],
  );
  execFileSync('openssl', args, { stdio: 'ignore' });
  return { key: readFileSync(key), cert: readFileSync(cert) };
}
