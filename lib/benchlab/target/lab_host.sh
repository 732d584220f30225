# lab_host.sh FOLDER NAME ADDRESS KEYS BASE, as the first process of a host's namespaces: gives the host
# files, devices, cgroups and an address of its own, and ends as its sshd.
set -eu
folder=$1 name=$2 address=$3 keys=$4 base=$5
echo "$name" > /proc/sys/kernel/hostname
mount -t tmpfs tmpfs "$folder/layer"
mkdir "$folder/layer/work"
cp -a "$base" "$folder/layer/upper"
mount -t overlay -o "lowerdir=/,upperdir=$folder/layer/upper,workdir=$folder/layer/work" \
    overlay "$folder/root"
cd "$folder/root"
rm -rf etc/benchlab usr/local/lib/benchlab var/lib/benchlab
mkdir var/lib/benchlab
mount --bind "$folder/disk" var/lib/benchlab
mount --rbind /dev dev
mount -t sysfs sysfs sys
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount --bind "/sys/fs/cgroup/benchlab-lab-$name" sys/fs/cgroup
else
    mount -t tmpfs tmpfs sys/fs/cgroup
    for hierarchy in $(ls /sys/fs/cgroup); do
        own=/sys/fs/cgroup/$hierarchy/benchlab-lab-$name
        [ -d "$own" ] || own=/sys/fs/cgroup/$hierarchy
        mkdir "sys/fs/cgroup/$hierarchy"
        mount --bind "$own" "sys/fs/cgroup/$hierarchy"
    done
fi
mount -t proc proc proc
mount -t tmpfs tmpfs run
# the machine's own, for what only it sees: the kernel's threads (benchlab.agent.sample)
mkdir -p run/benchlab-machine/proc
mount --bind -o ro /proc run/benchlab-machine/proc
mount -t tmpfs tmpfs tmp
mkdir -p run/sshd
cp "$keys/host" "$keys/authorized" run/sshd
grep -q '^sshd:' etc/passwd || echo 'sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin' >> etc/passwd
sed -i 's/^root:[^:]*:/root:*:/' etc/shadow  # sshd lets nobody into a locked account
timeout 60 sh -c 'until ip link show eth0; do sleep 0.1; done' > /dev/null 2>&1
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up
exec chroot . /usr/sbin/sshd -D -e -f /dev/null -o HostKey=/run/sshd/host \
    -o AuthorizedKeysFile=/run/sshd/authorized -o StrictModes=no -o PidFile=none -o UsePAM=no \
    -o PermitRootLogin=prohibit-password -o PasswordAuthentication=no \
    -o 'Subsystem=sftp internal-sftp'
