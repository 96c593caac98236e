#!/bin/bash
# The last life: an upgrade, a removal, another installation, a purge.

leave_part() {
	local pid
	check "the unit is up" within 120 systemctl is-active windhover
	sed -i 's/^# device = .*/device = "edge1"/' /etc/windhover/config.toml
	echo '# a line of the operator' >>/etc/windhover/config.toml
	pid=$(value MainPID)
	check "an upgrade" dpkg --force-confold -i next.deb
	check "restarts the daemon" sh -c "[ \$(systemctl show windhover -p MainPID --value) != $pid ] && systemctl is-active windhover"
	check "keeps the edited configuration" grep -qx '# a line of the operator' /etc/windhover/config.toml
	check "and puts the new one beside it" grep -qx '# a new default' /etc/windhover/config.toml.dpkg-dist
	check "keeps the models" within 90 shows '^tiny .*ready'
	check "those of the fleet too" within 90 shows '^shop .*1\.1.*ready'
	check "a prompt is answered" answers r-9 tiny

	check "remove" sh -c 'dpkg -r windhover | tee /run/removed'
	check "stops the service" sh -c '! systemctl is-active windhover && ! pgrep -x windhover'
	check "keeps models and configuration" sh -c "test -e $drop/tiny.vqf && grep -qx '# a line of the operator' /etc/windhover/config.toml"
	check "says so" grep -q 'models stay in /var/lib/windhover' /run/removed
	check "install again" dpkg --force-confold -i windhover.deb
	check "the models serve again" within 90 shows '^tiny .*ready'

	check "a backup as the documentation says" backup
	check "purge" sh -c 'dpkg -P windhover | tee /run/purged'
	check "says what went" grep -q 'removed /var/lib/windhover with its models' /run/purged
	check "no service is left" sh -c '! systemctl cat windhover'
	check "no file is left" sh -c 'left=$(find / -xdev -iname "*windhover*" -not -path "/proc/*" -not -path "/run/boot-test/*" -not -path "/tmp/*" -not -path "/var/lib/boot-test/*"); echo "$left"; [ -z "$left" ]'

	check "a backup comes back on a box that is new" restore
	check "its models serve" within 90 shows '^tiny .*ready'
	check "those of the fleet too" within 90 shows '^shop .*1\.1.*ready'
	check "with its configuration" grep -qx '# a line of the operator' /etc/windhover/config.toml
	check "a prompt is answered" answers r-10 tiny
}

# backup and restore are the commands of docs/OPERATIONS.md.
documented() { zcat $state/OPERATIONS.md.gz | sed -n "/^## $1/,/^## /p" | sed -n '/^```sh/,/^```/p' | grep -v '^```' | sed "s,/mnt/box.tar,$state/box.tar,; s,^apt install .*,dpkg -i windhover.deb,"; }
backup() { cp /usr/share/doc/windhover/OPERATIONS.md.gz $state/ && documented Backup >$state/backup && cat $state/backup && bash -ex $state/backup; }
restore() { documented Restore >$state/restore && cat $state/restore && bash -ex $state/restore; }
