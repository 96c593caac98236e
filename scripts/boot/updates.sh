#!/bin/bash
# The second and third life: a reboot, updates over the air, a model that takes the
# daemon down, and a power cut while a version is on trial.

serve_releases() { setsid busybox httpd -p 127.0.0.1:8000 -h /run/boot-test; }
publish() { mosquitto_pub -h 127.0.0.1 -q 1 -r -t windhover/v1/edge1/desired -f "shop-$1.dsse"; }
reported() { mosquitto_sub -h 127.0.0.1 -W 20 -C 1 -t windhover/v1/edge1/reported | tee $log.reported; }
reports() { reported | grep -qE "$1" || { cat $log.reported && false; }; }
state_file() { cat /var/lib/windhover/state/*.json; }

reboot_part() {
	check "after a reboot the unit is up" within 120 systemctl is-active windhover
	check "the model serves again" within 60 shows '^tiny .*ready'
	check "a prompt is answered" answers r-3 tiny
	note "active $(($(value ActiveEnterTimestampMonotonic) / 1000)) ms after the kernel began, of which the unit itself took $((($(value ActiveEnterTimestampMonotonic) - $(value ExecMainStartTimestampMonotonic)) / 1000))"

	systemd-analyze time >$out/time.txt 2>&1
	systemd-analyze blame --no-pager >$out/blame.txt 2>&1
	systemd-analyze critical-chain windhover.service --no-pager >$out/critical-chain.txt 2>&1

	serve_releases
	install -m 644 works.fleet.pub /etc/windhover/trust.d/
	publish 1
	check "a release that the fleet wants is fetched, tried and kept" within 180 reports '"status":"current"'
	check "it serves" within 30 shows '^shop .*ready'
	check "and answers" answers r-4 shop

	publish 2
	check "the next one is on trial" within 180 reports '"version":"1.2".*"phase":"observing"'
	check "and answers" answers r-5 shop
	loop_of_crashes
	check "the crash loop takes it back" within 60 reports '"status":"failed".*"version":"1.2".*"health_check_failed".*"serves":"1.1"'
	check "what served before serves" within 60 shows '^shop .*1\.1.*ready'
	check "and answers" answers r-6 shop
	check "the journal tells of it" log_has MESSAGE_ID="$(message_id rolled_back)" WINDHOVER_MODEL=shop

	check "no start loaded what was dropped a second time" not_unloaded

	publish 3
	check "a third one is on trial" within 180 reports '"version":"1.3".*"phase":"observing"'
}

not_unloaded() { ! log_has WINDHOVER_MODEL=tiny -g unloaded; }

# loop_of_crashes kills the daemon as often as a version on trial may take it down.
loop_of_crashes() {
	local pid
	for _ in 1 2; do
		pid=$(value MainPID)
		kill -KILL "$pid"
		within 60 sh -c "[ \$(systemctl show windhover -p MainPID --value) != $pid ] && systemctl -q is-active windhover"
	done
}

cut_part() {
	check "after the power cut the unit is up" within 120 systemctl is-active windhover
	check "it was a power cut" sh -c 'dmesg | grep -q "recovery complete"'
	check "the models of drop/ serve" within 60 shows '^tiny .*ready'
	check "the one on trial serves, with one start left" within 90 shows '^shop .*1\.3.*ready'
	check "and answers" answers r-7 shop
	kill -KILL "$(value MainPID)"
	check "when it takes the daemon down once more it goes" within 120 shows '^shop .*1\.1.*ready'
	check "and that is told" within 60 reports '"status":"failed".*"version":"1.3".*"health_check_failed".*"serves":"1.1"'
	check "what is left answers" answers r-8 shop
	check "nothing half done is left" sh -c '[ -z "$(ls -A /var/lib/windhover/incoming/updates 2>/dev/null)" ]'
}
