import { S3Client } from '@aws-sdk/client-s3';

const REGION = 'us-east-1';
const CONNECT_TIMEOUT_MS = 2_000;
const REQUEST_TIMEOUT_MS = 10_000;

/**
 * A client for the store of a URL `https://key:secret@host[:port]/bucket[/prefix][?region=…]`. The bucket is '' if the
 * URL names none; a prefix ends with `/`.
 * @param maxAttempts requests for one command, default 3
 */
export function openS3(url: string, { maxAttempts = 3 } = {}) {
  const { protocol, host, pathname, username, password, searchParams } = new URL(url);
  const [bucket = '', ...folders] = pathname.split('/').filter(Boolean).map(decodeURIComponent);
  const client = new S3Client({
    endpoint: `${protocol}//${host}`,
    region: searchParams.get('region') ?? REGION,
    forcePathStyle: true,
    maxAttempts,
    credentials: {
      accessKeyId: decodeURIComponent(username),
      secretAccessKey: decodeURIComponent(password),
    },
    // Not every compatible store supports the newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      throwOnRequestTimeout: true,
    },
  });
  return { client, bucket, prefix: folders.map((folder) => `${folder}/`).join('') };
}
