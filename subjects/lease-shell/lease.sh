#!/bin/sh
# An external lock that the lab can try: fencepost crash --lock=subjects/lease-shell
#
# A lease in a file. Every grant has a larger number, which is its fence. A release checks that the lock is still its own.
#
# The file contains the number of the last grant and the time at which it ends. Only one process at a time reads and replaces it (flock).

# Reads a field of the request, which is one line of JSON without quotation marks inside its texts, into $value.
field() {
    value=${ask#*\"$1\":}
    case $value in
        \"*) value=${value#\"} value=${value%%\"*} ;;
        *) value=${value%%[,\}]*} ;;
    esac
}

# Milliseconds since the machine started, in steps of ten; all processes share this clock.
now() { read -r up rest </proc/uptime && now=${up%.*}${up#*.}0; }

# Runs the function $1 with $number and $end of the lock, while no other process does. Whatever fails, nothing is taken.
alone() { { flock 9 && now && record && "$1"; } 9>"$lock.flock"; }

record() { number=0 end=0 && { [ ! -e "$lock.lease" ] || read -r number end <"$lock.lease"; }; }

put() { echo "$number $1" >"$lock.new" && mv "$lock.new" "$lock.lease"; } # in one step

# A step of the clock longer, because the time was rounded down.
take() { [ "$now" -ge "$end" ] && number=$((number + 1)) && put $((now + ttl + 10)); }

give_back() { [ "$number" = "$fence" ] && [ "$now" -lt "$end" ] && put 0; }

holds=0
while read -r ask; do
    field op && op=$value
    field type
    case $value in
        init)
            field resource
            if [ "$value" != number ]; then
                echo '{"type":"error","definite":true,"message":"this lock cannot buy: use crash, deadlock or trial"}' && exit
            fi
            field ttl_ms && ttl=$value
            folder=${ask#*\"sqlite:} && folder=${folder%%\"*}.locks # beside the file of --store sqlite
            mkdir -p "$folder" && echo '{"type":"init_ok"}' # its claims are in subject.toml
            ;;
        acquire)
            field key && lock=$folder/$(printf %s "$value" | sha256sum | cut -c 1-64)
            field wait_ms && now && give_up=$((now + value)) contended=false
            until alone take; do
                contended=true
                if [ "$now" -ge "$give_up" ]; then echo "{\"type\":\"refused\",\"op\":$op}" && continue 2; fi
                sleep 0.01
            done
            holds=$((holds + 1))
            eval "lock_$holds=\$lock fence_$holds=\$number"
            echo "{\"type\":\"acquired\",\"op\":$op,\"hold\":$holds,\"fence\":\"$number\",\"contended\":$contended}"
            ;;
        step) echo "{\"type\":\"stepped\",\"op\":$op}" ;;
        release)
            field hold && eval "lock=\$lock_$value fence=\$fence_$value"
            if alone give_back; then outcome=released; else outcome=already_lost; fi
            echo "{\"type\":\"released\",\"op\":$op,\"outcome\":\"$outcome\"}"
            ;;
        shutdown) exit ;;
        *) echo "{\"type\":\"error\",\"op\":$op,\"definite\":true,\"message\":\"cannot do: $value\"}" ;;
    esac
done
