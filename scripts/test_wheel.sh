#!/usr/bin/env bash
# Installs the Python package with pip into a fresh environment and uses what it gives: the `reprise` command
# and the module. Builds everything once more, so it is not part of scripts/test.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh --tests
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check .
model="$PWD/models/reprise-tiny"
cd "$folder"
venv/bin/reprise --version
venv/bin/reprise generate "$model" --prompt "Once upon a time" --max-tokens 8
venv/bin/reprise collect-env | grep -i llvm
# Both the program and the package carry the kernels for GPUs if the build had a toolkit.
if ls "$OLDPWD"/build/python-*/bin/reprise_cuda.so >/dev/null 2>&1; then
  venv/bin/reprise collect-env | grep "CUDA plug-in (reprise_cuda.so)"
  ls venv/lib/python*/site-packages/reprise/reprise_cuda.so
fi
venv/bin/python -c "
from reprise import LLM, SamplingParams
answer = LLM('$model').generate(['Once upon a time'], SamplingParams(max_tokens=8))[0].outputs[0].text
assert answer, 'no text'
print('module:', answer)"
echo "the wheel works"
