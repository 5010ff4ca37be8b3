#!/bin/sh
# A long run at a steady rate: memory and descriptors of spate every ten seconds, and whether they stay flat.
# usage: soak.sh SPATE SECONDS RATE FOLDER
set -eu
spate=$1 seconds=$2 rate=$3 folder=$4
mkdir -p "$folder"
"$spate" sim --profile Qwen3-0.6B@H100-SXM --max-num-seqs 2048 --port 0 >"$folder/sim.log" 2>&1 &
sim=$!
trap 'kill $sim 2>/dev/null || true' EXIT
url=
for _ in 1 2 3 4 5 6 7 8 9 10; do
	sleep 1
	url=$(grep -o 'http://[0-9.:]*' "$folder/sim.log" | head -1 || true)
	[ -n "$url" ] && break
done
[ -n "$url" ] || { cat "$folder/sim.log"; exit 1; }
echo "server $url; $rate requests/s for $seconds s; every sample in $folder/samples.csv"
"$spate" bench --base-url "$url" --request-rate "$rate" --duration "$seconds" --isl 32 --osl 16 \
	--output-dir "$folder/run" --no-store >"$folder/block.txt" 2>"$folder/bench.log" &
bench=$!
echo "second,client_rss_kib,client_descriptors,server_rss_kib,server_descriptors" >"$folder/samples.csv"
start=$(date +%s)
sample() { # PID: its resident KiB and open descriptors
	printf '%s,%s' "$(awk '/^VmRSS/ { print $2 }' "/proc/$1/status")" "$(ls "/proc/$1/fd" | wc -l)"
}
while kill -0 $bench 2>/dev/null; do
	now=$(($(date +%s) - start))
	[ $now -lt "$seconds" ] && echo "$now,$(sample $bench),$(sample $sim)" >>"$folder/samples.csv" 2>/dev/null
	sleep 10
done
wait $bench || echo "spate bench ended with $?"
cat "$folder/block.txt"
# Flat: what is held at the quietest moment of the last fifth of the time against that of the second fifth. Between two
# garbage collections memory rises and falls, and descriptors follow the requests in flight, so means tell less.
awk -F, -v seconds="$seconds" -v rate="$rate" '
	NR > 1 {
		part = int(5 * $1 / seconds)
		for (i = 2; i <= 5; i++) {
			if (!((part, i) in low) || $i + 0 < low[part, i]) low[part, i] = $i + 0
			if ($i > top[i]) top[i] = $i
		}
	}
	END {
		split(",client memory (MiB),client descriptors,server memory (MiB),server descriptors", name, ",")
		print "| | least in the second fifth | least in the last fifth | most |"; print "| --- | --- | --- | --- |"
		for (i = 2; i <= 5; i++) {
			unit = i % 2 ? 1 : 1024
			printf "| %s | %.1f | %.1f | %.1f |\n", name[i], low[1, i] / unit, low[4, i] / unit, top[i] / unit
		}
		each = 1024 * (low[4, 2] - low[1, 2]) / (0.6 * seconds * rate)
		printf "client memory grew by %.0f bytes for each request between the two\n", each
		if (each > 64 || low[4, 3] > low[1, 3] + 16) { print "NOT flat: more than 64 bytes for each request, or 16 descriptors more"; exit 1 }
	}' "$folder/samples.csv"
