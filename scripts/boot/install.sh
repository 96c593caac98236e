#!/bin/bash
# The first life: install, drop a model, ask it, look at what systemd says.

install_part() {
	note "$(uname -srm), pages of $(getconf PAGESIZE) bytes, $(systemctl --version | head -1), Debian $(cat /etc/debian_version)"
	check "systemd is process 1" grep -qx systemd /proc/1/comm
	check "the package installs" dpkg -i windhover.deb
	check "the unit is active" systemctl is-active windhover
	check "it runs as its own user" sh -c '[ "$(stat -c %U /proc/$(systemctl show windhover -p MainPID --value))" = windhover ]'
	check "it was ready without a model and without waiting" is NRestarts 0
	check "the status line says where to drop" sh -c "systemctl show windhover -p StatusText --value | grep -q $drop"

	useradd -G windhover anna && useradd bert
	cp tiny.vqf /tmp/ && chmod 644 /tmp/tiny.vqf
	check "a member of the group drops a model" as anna cp /tmp/tiny.vqf $drop/
	check "it is ready" within 60 test -e $drop/tiny.vqf.ready
	check "nobody else may drop" sh -c "! setpriv --reuid bert --regid bert --init-groups cp /tmp/tiny.vqf $drop/bert.vqf"
	check "a prompt over MQTT is answered" answers r-1 tiny
	check "the daemon's own client gets an answer too" windhover send --raw --max-tokens 8 hello
	check "the socket says how it is" windhover status
	check "the port says that it is ready" ready
	check "a conversion runs under the unit's limits" sh -c "cp -r tiny-source /var/lib/windhover/import/again && windhover job convert again"
	check "what it made is served" within 60 test -e $drop/again.vqf.ready
	check "its memory is measured and let go" sh -c "rm $drop/again.vqf && for _ in \$(seq 60); do windhover models | grep -q '^again' || exit 0; sleep 0.5; done; false"

	check "workers are pinned under the unit's filters" pinned
	check "system calls beyond the filter are refused to it" sh -c 'grep -q "^Seccomp:.2" /proc/$(systemctl show windhover -p MainPID --value)/status'
	check "doctor finds nothing to repair" runuser -u windhover -- windhover doctor
	check "reload is a reload" sh -c "systemctl reload windhover && systemctl is-active windhover"
	check "the journal has the event under its id" within 10 log_has MESSAGE_ID=$(message_id config_reloaded)
	check "and the model's name in a field of its own" log_has MESSAGE_ID=$(message_id model_ready) WINDHOVER_MODEL=tiny
	watchdog_part
	sockets_part
	credentials_part
	said
}

# message_id EVENT: as the man page lists it.
message_id() { zcat /usr/share/man/man8/windhover.8.gz | sed -n "s/^\.It $1 Ta //p"; }

# pinned: threads of the engine, each on a processor of its own.
pinned() {
	local pid
	pid=$(value MainPID)
	windhover send --raw --max-tokens 4 hello >/dev/null
	grep -h Cpus_allowed_list /proc/"$pid"/task/*/status | sort | uniq -c
	grep -h Cpus_allowed_list /proc/"$pid"/task/*/status | grep -qE '	[0-9]+$'
	get /metrics | grep '^windhover_affinity_ok 1'
}

ready() { get /readyz | grep -qx ready; }
healthy() { get /healthz | grep -qx ok; }
ten_times_healthy() { for _ in 1 2 3 4 5 6 7 8 9 10; do healthy || return; done; }

watchdog_part() {
	local before
	before=$(value NRestarts)
	kill -STOP "$(value MainPID)"
	check "the watchdog ends a process that is stopped" within 120 sh -c "[ \$(systemctl show windhover -p NRestarts --value) -gt $before ]"
	check "the model is back by itself" within 90 shows '^tiny .*ready'
	check "and answers" answers r-2 tiny
}

# said: what systemd and the box say of themselves.
said() {
	systemd-analyze security windhover.service --no-pager >$out/security.txt 2>&1
	systemd-analyze verify --man=no windhover.service windhover.socket windhover-http.socket >$out/verify.txt 2>&1
	check "systemd accepts the units" sh -c "! grep -q windhover $out/verify.txt"
	check "the exposure is 1.5 at most" systemd-analyze security --threshold=15 --no-pager windhover.service
	systemctl status windhover --no-pager -l >$out/status.txt 2>&1
	windhover doctor >$out/doctor.txt 2>&1
}

# sockets_part: systemd holds the sockets, so that nobody is refused during a restart.
sockets_part() {
	systemctl reset-failed windhover
	systemctl stop windhover
	check "stop is clean" is Result success
	systemctl enable --now --quiet windhover.socket windhover-http.socket
	check "nothing runs until somebody asks" is ActiveState inactive
	check "a question to the socket starts it" sh -c 'windhover status && systemctl is-active windhover'
	check "the sockets are those of systemd" log_has -g 'from systemd'
	check "a group member asks through the socket" as anna windhover status
	check "others may not" sh -c '! setpriv --reuid bert --regid bert --init-groups windhover status'
	systemctl restart windhover &
	check "no request is refused during a restart" ten_times_healthy
	wait $!
	systemctl disable --now --quiet windhover.socket windhover-http.socket
	systemctl restart windhover
	check "without them it opens its own" windhover status
	check "and its own port" within 20 healthy
}

status_of() { get "${@:2}" | head -1 | grep -q " $1 "; }

# credentials_part: a token that only root can read reaches the daemon, and nobody else.
credentials_part() {
	local secret=swordfish-in-the-harbour
	install -m 600 /dev/stdin /etc/windhover/credentials/http-token <<<$secret
	mkdir -p /etc/systemd/system/windhover.service.d
	sed 's/^#\(LoadCredential=http-token\)/\1/; s/^LoadCredential=mqtt/#&/' /usr/share/doc/windhover/examples/systemd/credentials.conf >/etc/systemd/system/windhover.service.d/credentials.conf
	printf '[http]\ntoken_file = "/run/credentials/windhover.service/http-token"\n' >/etc/windhover/conf.d/token.toml
	systemctl daemon-reload && systemctl restart windhover
	check "the token of the credential is asked for" within 20 status_of 401 /v1/models
	check "and lets in" status_of 200 /v1/models "Authorization: Bearer $secret"
	check "it is in no log and no state" sh -c "! journalctl -u windhover | grep -q $secret && ! grep -rqs $secret /var/lib/windhover"
	check "the daemon's user cannot read the file" sh -c '! runuser -u windhover -- cat /etc/windhover/credentials/http-token'
	rm -r /etc/systemd/system/windhover.service.d /etc/windhover/conf.d/token.toml /etc/windhover/credentials/http-token
	systemctl daemon-reload && systemctl restart windhover
}
