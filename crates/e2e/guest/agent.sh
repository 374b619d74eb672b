#!/bin/bash
# Carries out commands from standard input, one after another, and answers on standard output.
#
#   command:  NUMBER SECONDS BYTES<newline>, then so many bytes of a bash script
#   answer:   NUMBER CODE BYTES<newline>, then so many bytes of what it printed, errors included
#
# A script that takes longer than its seconds is ended, with code 124. Of an output that is longer than
# a mebibyte the end is told.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
work=${1:-/run/agent}
echo ready
while IFS=' ' read -r number seconds bytes; do
  head -c "$bytes" >"$work/script"
  timeout -k 5 "$seconds" bash "$work/script" </dev/null >"$work/output" 2>&1
  code=$?
  tail -c 1048576 "$work/output" >"$work/answer"
  echo "$number $code $(stat -c %s "$work/answer")"
  cat "$work/answer"
done
