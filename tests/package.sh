#!/usr/bin/env bash
# tests/package.sh BUILD: makes the Debian package of a build folder, installs it, and uses it
# without a compiler: into a clean Debian 12 root where debootstrap is there and we are root, else
# into a folder, which is said.
set -euo pipefail
build=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "package.sh: $*" >&2; exit 1; }

(cd "$build" && cpack -G DEB -B "$work/made" >"$work/log" 2>&1) ||
  { cat "$work/log"; die "cpack"; }
package=$(echo "$work"/made/*.deb)
dpkg-deb --info "$package" | grep -E '^ (Package|Version|Depends)' || die "no fields"
dpkg-deb --contents "$package" >"$work/contents"
for file in usr/bin/oubli usr/include/oubli/oubli.h usr/libexec/oubli/get-data \
  usr/libexec/oubli/get-runtime usr/share/man/man1/oubli-forget.1 \
  usr/share/bash-completion/completions/oubli usr/share/zsh/vendor-completions/_oubli; do
  grep -q "\./$file\$" "$work/contents" || die "not in the package: $file"
done
grep -Eq '/liboubli\.a$' "$work/contents" || die "no library in the package"

root=$work/root
clean=no
[ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null || clean=yes
[ -z "${OUBLI_PREFIX_ONLY:-}" ] || clean=no
if [ $clean = yes ]; then
  echo "into a clean Debian 12 root"
  debootstrap --variant=minbase bookworm "$root" >"$work/log" 2>&1 ||
    { tail "$work/log"; die "debootstrap"; }
  cp "$package" "$root/oubli.deb"
  chroot "$root" apt-get install -y -qq --no-install-recommends /oubli.deb >"$work/log" 2>&1 ||
    { tail "$work/log"; die "apt-get"; }
  use() { chroot "$root" "$@"; }
  prefix=
else
  echo "into a folder, not a clean root: dependencies are this machine's"
  mkdir "$root"
  dpkg-deb -x "$package" "$root"
  use() { (cd "$root" && "$@"); }
  prefix=$root
fi
# A head of 3 classes by 2 features, by hand: naive deletion needs no data.
mkdir -p "$root/tmp"
header="{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"
printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header" >"$root/tmp/head.npy"
printf '\0\0\x80\x3f\0\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\x80\x3f\0\0\x80\x3f' >>"$root/tmp/head.npy"
use "$prefix/usr/bin/oubli" --version
use "$prefix/usr/bin/oubli" forget "$prefix/tmp/head.npy" --class 1 --method naive \
  --rows-are-classes -o "$prefix/tmp/new.npy" >"$work/said" || { cat "$work/said"; die "forget"; }
grep -q '2 left' "$work/said" || die "forget said: $(cat "$work/said")"
use "$prefix/usr/bin/oubli" verify "$prefix/tmp/new.npy.receipt.json" | head -1
use "$prefix/usr/bin/oubli" get-data --help | grep -q fashion-mnist || die "get-data"
grep -q -- '\\-\\-class' "$root/usr/share/man/man1/oubli-forget.1" || die "man page"
completion=$root/usr/share/bash-completion/completions/oubli
# shellcheck disable=SC1090
found=$(bash -c "source '$completion'; COMP_WORDS=(oubli forget --cla); COMP_CWORD=2; _oubli; echo \
  \"\${COMPREPLY[*]}\"")
[ "$found" = "--class --class-names" ] || die "completion: $found"
/usr/bin/python3 "$(dirname "$0")/zsh_completion.py" "$root/usr/share/zsh/vendor-completions" ||
  [ $? -eq 77 ] || die "completion in zsh"
echo "package.sh: passed"
