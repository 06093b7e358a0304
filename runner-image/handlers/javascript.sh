#!/bin/sh
# Usage: javascript.sh SCRIPT [ARGUMENTS]. Calls a tool's handler in JavaScript or TypeScript; see javascript.cjs.
# Node cannot duplicate a descriptor, and a handler must find stderr where stdout was: the result goes to 3.
exec 3>&1 >&2
exec node "${0%/*}/javascript.cjs" "$@"
