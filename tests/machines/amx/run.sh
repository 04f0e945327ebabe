#!/usr/bin/env bash
# Level amx on a whole emulated machine: the tests of its instructions, the kernels' hashes and the
# golden models' hashes, under a Linux that is asked for the tiles.
#   BOCHS=… KERNEL=… BIOS=… VGABIOS=… run.sh     default: what Debian's packages install
# BOCHS is Bochs 3 with AMX and XFD (README.md here says what 3.0 lacks); KERNEL a bzImage of 5.16
# or newer. REFUSED=1 boots a Linux that gives no tiles: the next level must run.
set -euo pipefail
cd "$(dirname "$0")/../../.."
bochs=${BOCHS:-bochs} kernel=${KERNEL:-$(ls -1 /boot/vmlinuz-* 2>/dev/null | tail -n 1)}
bios=${BIOS:-/usr/share/bochs/BIOS-bochs-latest}
vgabios=${VGABIOS:-/usr/share/vgabios/vgabios.stdvga.bin}
level=${REFUSED:+avx512vnni} && level=${level:-amx}
isolinux=/usr/lib/ISOLINUX/isolinux.bin module=/usr/lib/syslinux/modules/bios/ldlinux.c32
busybox=$(command -v busybox || true)
for file in "$(command -v "$bochs" || echo "$bochs")" "$kernel" "$bios" "$vgabios" $isolinux \
  $module "${busybox:-busybox}" build/phasor build/phasor-tests build/hash_driver; do
  [ -f "$file" ] || { echo "amx: no ${file:-kernel}: make tests; packages bochs, bochsbios," \
    "vgabios, isolinux, syslinux-common, xorriso, cpio, busybox-static and a kernel" >&2; exit 1; }
done
out=build/amx root=build/amx/root
rm -rf $out
mkdir -p $root/{bin,proc,sys,dev,tests/golden,build,lib64} $out/cd/isolinux
cp "$busybox" $root/bin/busybox
cp build/{phasor,phasor-tests,hash_driver} $root/build/
cp -r tests/golden/models $root/tests/golden/
programs="build/phasor build/phasor-tests build/hash_driver"
for library in $(ldd $programs | grep -o '/lib[^ ]*' | sort -u); do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
cat > $root/init <<INIT
#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
exec >/dev/ttyS0 2>&1
flags=\$(/bin/busybox grep -o 'amx[a-z_0-9]*' /proc/cpuinfo | /bin/busybox sort -u)
echo begin \$(/bin/busybox uname -r) \$flags
build/phasor --version
build/phasor-tests -nc -tc='tiles:*,*one table of hashes*,rule 1.2 and 1.4*,every level is found*'
echo "kernels \$?"
for model in tests/golden/models/*.phasor; do
  build/hash_driver --isa $level --threads 1,2 --chunk 0,7 --pairs \$model || echo "failed \$model"
done
echo end
/bin/busybox sleep 60  # what is printed leaves the buffer
/bin/busybox poweroff -f
INIT
chmod +x $root/init
(cd $root && find . | cpio -o -H newc --quiet | gzip -1) > $out/cd/isolinux/initrd
cp "$kernel" $out/cd/isolinux/kernel
cp $isolinux $module $out/cd/isolinux/
# What Bochs does not have as a processor does, or not right: copies by string instructions while
# code is patched, SMAP, process contexts. Without XSAVES Linux has no room for tiles.
options="nosmap nosmep no5lvl nopku nopcid noinvpcid clearcpuid=erms,fsrm ${REFUSED:+noxsaves}"
cat > $out/cd/isolinux/isolinux.cfg <<CONFIG
default linux
label linux
 kernel kernel
 append initrd=initrd console=ttyS0 nokaslr mitigations=off random.trust_cpu=on maxcpus=1 $options
CONFIG
xorriso -as mkisofs -quiet -o $out/cd.iso -b isolinux/isolinux.bin -c isolinux/boot.cat \
  -no-emul-boot -boot-load-size 4 -boot-info-table $out/cd 2>/dev/null
cat > $out/bochsrc <<CONFIG
cpu: model=sapphire_rapids, count=1, ips=100000000
memory: guest=1024, host=1024
romimage: file=$bios
vgaromimage: file=$vgabios
ata0-master: type=cdrom, path=$out/cd.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$out/serial
display_library: nogui
log: $out/log
clock: sync=none
CONFIG
"$bochs" -q -f $out/bochsrc > $out/bochs 2>&1 &
emulator=$!
trap 'kill $emulator 2>/dev/null || true' EXIT
for _ in $(seq $((6 * ${MINUTES:-120}))); do
  sleep 10
  grep -q '^end' $out/serial 2>/dev/null && break
  kill -0 $emulator 2>/dev/null || break
done
python3 tests/machines/cross/amx_check.py $out/serial ${REFUSED:+--refused}
