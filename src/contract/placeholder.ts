import { keepHead } from './code-points.ts';

/**
 * Stands for a part that is no text, with what the policy can use: kind, media type or name, size. Never its content
 * nor its address: `[image image/png, 12 KB]`, `[file report.pdf]`.
 */
export function placeholder(part: { readonly type: string; readonly [key: string]: unknown }): string {
  const kind = part.type.replace(/^input_|_url$/g, '');
  const inner = recordAt(part, part.type) ?? recordAt(part, kind) ?? {};
  const data = textAt(inner, 'url') ?? textAt(inner, 'data') ?? textAt(inner, 'file_data') ?? textAt(part, 'image_url');
  const encoded = data === undefined ? undefined : encodedPart(data);
  const label = textAt(inner, 'filename') ?? textAt(inner, 'format') ?? encoded?.mediaType;
  const facts = [label && keepHead(label, 100), encoded && `${Math.ceil(encoded.bytes / 1024)} KB`].filter(
    (fact) => fact !== undefined && fact !== '',
  );
  return facts.length === 0 ? `[${kind}]` : `[${kind} ${facts.join(', ')}]`;
}

/** Media type and size of a data URL or of bare base64; undefined for an address. */
function encodedPart(data: string): { mediaType: string | undefined; bytes: number } | undefined {
  const comma = data.startsWith('data:') ? data.indexOf(',') : -1;
  if (comma < 0 && /^[a-z][a-z0-9+.-]*:/i.test(data)) return undefined;
  const mediaType = comma < 0 ? undefined : /^data:([\w.+/-]{1,100})/.exec(data)?.[1];
  return { mediaType, bytes: Math.floor(((data.length - comma - 1) * 3) / 4) };
}

const recordAt = (record: Readonly<Record<string, unknown>>, key: string): Record<string, unknown> | undefined => {
  const value = record[key];
  // An object read from JSON; its keys are looked at one by one.
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
};

const textAt = (record: Readonly<Record<string, unknown>>, key: string): string | undefined => {
  const value = record[key];
  return typeof value === 'string' ? value : undefined;
};
