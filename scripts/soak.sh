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
# Flat: the mean of the last fifth of the time against the second fifth.
awk -F, -v seconds="$seconds" '
	NR > 1 { part = int(5 * $1 / seconds); n[part]++; for (i = 2; i <= 5; i++) { sum[part, i] += $i; if ($i > top[i]) top[i] = $i } }
	END {
		split(",client memory (MiB),client descriptors,server memory (MiB),server descriptors", name, ",")
		print "| | second fifth | last fifth | change | most |"; print "| --- | --- | --- | --- | --- |"
		for (i = 2; i <= 5; i++) {
			unit = i % 2 ? 1 : 1024
			a = sum[1, i] / n[1] / unit; b = sum[4, i] / n[4] / unit
			printf "| %s | %.1f | %.1f | %+.1f %% | %.1f |\n", name[i], a, b, 100 * (b / a - 1), top[i] / unit
			if (i < 4 && b > 1.1 * a) bad = 1
		}
		if (bad) { print "NOT flat: more than 10 % above the second fifth"; exit 1 }
	}' "$folder/samples.csv"
