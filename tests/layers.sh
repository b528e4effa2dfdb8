#!/usr/bin/env bash
# A folder, with all folders in it, includes only folders above it in CMakeLists.txt's list.
set -euo pipefail
cd "$(dirname "$0")/.."
folders=$(sed -n '/^foreach(folder IN ITEMS/,/)/p' CMakeLists.txt | tr -d '()\n' |
  sed 's/foreachfolder IN ITEMS//')
bad=0
allowed=""
for folder in $folders; do
  allowed="$allowed $folder"
  while IFS=: read -r file included; do
    case " $allowed " in
      *" $included "*) ;;
      *) echo "$file includes oubli/$included, which is below oubli/$folder"; bad=1 ;;
    esac
  done < <(grep -roHE --include='*.h' --include='*.cpp' '^#include "oubli/[a-z]+/' oubli/"$folder" |
           sed -E 's/#include "oubli\/([a-z]+)\//\1/')
done
count=$(echo "$folders" | wc -w)
[ "$count" -ge 15 ] || { echo "found only $count folders: did the list move?"; exit 1; }
exit $bad
