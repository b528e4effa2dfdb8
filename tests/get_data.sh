#!/usr/bin/env bash
# get_data.sh: tools/get-data --archive stores what has the right digests, whole, and nothing else.
# The AT&T faces themselves are used if they are installed; every refusal is shown with archives
# made here.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
installed=${OUBLI_DATA:-${XDG_CACHE_HOME:-$HOME/.cache}/oubli}/faces
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export OUBLI_DATA=$work/data

fail() { echo "get_data.sh: $*" >&2; exit 1; }
get() { # get CODE WORDS ARGUMENTS...: exit code, and words in what it says
  local code=$1 words=$2 found=0
  shift 2
  "$source/tools/get-data" "$@" >out 2>err || found=$?
  [ "$found" = "$code" ] || fail "exit code $found, wanted $code: $*: $(cat err)"
  grep -qF -- "$words" out err || fail "'$words' not in what was said: $*: $(cat out err)"
}
refused() { # the same, and nothing is there afterwards, hidden or not
  get "$@"
  [ -z "$(ls -A data 2>/dev/null)" ] || fail "left behind after $*: $(ls -A data)"
}

# 40 folders of 10 images of the right size, with other pixels.
mkdir faces
for s in $(seq 40); do
  mkdir "faces/s$s"
  for i in $(seq 10); do
    { printf 'P5\n92 112\n255\n'; head -c 10304 /dev/zero; } >"faces/s$s/$i.pgm"
  done
done
tar -cf other-pixels.tar faces
refused 3 'not those of the AT&T faces; nothing was stored' faces --archive other-pixels.tar
tar -czf other-pixels.tgz -C faces .
refused 3 'not those of the AT&T faces; nothing was stored' faces --archive other-pixels.tgz
rm faces/s7/3.pgm
tar -cf one-missing.tar faces
refused 3 'not those of the AT&T faces; nothing was stored' faces --archive one-missing.tar
rm -r faces/s1
tar -cf no-first.tar faces
refused 3 'no folders s1 ... s40' faces --archive no-first.tar
tar -cf nobody.tar --files-from /dev/null
refused 3 'no folders s1 ... s40' faces --archive nobody.tar
head -c 5000 other-pixels.tgz >cut.tgz
refused 3 'not a tar archive' faces --archive cut.tgz
echo 'no archive' >text
refused 3 'not a tar archive' faces --archive text
refused 6 'cannot be read' faces --archive missing.tar
refused 6 'cannot be read' faces --archive missing/missing.tar
refused 7 '--archive FILE' faces
refused 2 '--archive needs a file' faces --archive
refused 2 "no data set 'people'" people --archive other-pixels.tar

# The other sets that come as archives.
mkdir -p package/data
for part in train t10k; do
  for kind in images-idx3 labels-idx1; do echo other >"package/data/$part-$kind-ubyte"; done
done
tar -czf mnist.tgz package
refused 3 'wrong digest; nothing was stored' mnist --archive mnist.tgz
refused 3 'not a .tgz archive' mnist --archive text
tar -czf no-mnist.tgz faces/s2
refused 3 'no MNIST in it' mnist --archive no-mnist.tgz
mkdir cifar-10-batches-bin
for name in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
  echo other >"cifar-10-batches-bin/$name.bin"
done
# A long list of names behind the one that is looked for: whoever stops reading it early breaks the
# pipe.
for i in $(seq 3000); do : >"cifar-10-batches-bin/one-of-many-other-files-with-a-long-name-$i"; done
tar -czf cifar.tgz cifar-10-batches-bin/*.bin cifar-10-batches-bin/one-of-*
refused 3 'wrong digest; nothing was stored' cifar10 --archive cifar.tgz

[ -d "$installed" ] ||
  { echo "the AT&T faces are not installed: no archive of theirs was tried"; exit 0; }
# Whatever else is in the archive is not stored: no digest vouches for it.
rm -r faces
cp -r "$installed" faces
cp faces/s1/1.pgm faces/s1/11.pgm
cp -r faces/s1 faces/s41
tar -cf right.tar faces
get 0 "$work/data/faces" faces --archive right.tar
rm -r faces/s1/11.pgm faces/s41
diff -r faces data/faces || fail "what was stored is not what was in the archive"
[ "$(ls -A data)" = faces ] || fail "left behind: $(ls -A data)"
get 0 'is there already' faces --archive other-pixels.tar
diff -r faces data/faces || fail "a data set that was there was changed"
