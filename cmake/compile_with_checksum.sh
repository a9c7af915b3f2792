#!/bin/sh
# Runs a compiler. When the output is a precompiled header, the header's checksum is written beside it:
# ccache then reads the checksum for every file that uses the header, and not the header's 120 MB.
"$@" || exit
for argument in "$@"; do
  case "$argument" in
    *.gch) sha256sum <"$argument" >"$argument.sum" ;;
  esac
done
