# SPDX-License-Identifier: BSD-2-Clause
"""Looks at every packet of captures with readers that have nothing of EXS in them: scapy's RoCE layer computes the
ICRC, tshark takes the headers apart.

usage: dissect.py FILE:KIND,KIND,...   KIND, which must occur: SEND, INVALIDATE, WRITE, READ, RESPONSE, ACK or NAK
"""
import collections
import subprocess
import sys

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.packet import bind_layers, raw
from scapy.utils import PcapReader

# Of reliable connections (InfiniBand specification, 9.2.1): kind, place in the message, bytes of headers behind BTH.
ONLY, FIRST, MIDDLE, LAST = "ONLY", "FIRST", "MIDDLE", "LAST"
MARK_PORT = 9  # of a packet that only says where a capture ends
RETH, AETH, IMMDT, IETH, DETH = 16, 4, 4, 4, 8
OPCODES = {
    0: ("SEND", FIRST, 0), 1: ("SEND", MIDDLE, 0), 2: ("SEND", LAST, 0), 3: ("SEND", LAST, IMMDT),
    4: ("SEND", ONLY, 0), 5: ("SEND", ONLY, IMMDT),
    6: ("WRITE", FIRST, RETH), 7: ("WRITE", MIDDLE, 0), 8: ("WRITE", LAST, 0), 9: ("WRITE", LAST, IMMDT),
    10: ("WRITE", ONLY, RETH), 11: ("WRITE", ONLY, RETH + IMMDT),
    12: ("READ", ONLY, RETH),
    13: ("RESPONSE", FIRST, AETH), 14: ("RESPONSE", MIDDLE, 0), 15: ("RESPONSE", LAST, AETH),
    16: ("RESPONSE", ONLY, AETH),
    17: ("ACK", ONLY, AETH),
    22: ("INVALIDATE", LAST, IETH), 23: ("INVALIDATE", ONLY, IETH),  # the last of a SEND
    100: ("MANAGEMENT", ONLY, DETH),  # a datagram: rdma_cm's messages, of a real device
}
FIELDS = ["ip.len", "infiniband.bth.opcode", "infiniband.bth.padcnt", "infiniband.bth.tver", "infiniband.bth.p_key",
          "infiniband.bth.psn", "infiniband.reth.dmalen", "infiniband.aeth.syndrome.opcode",
          "infiniband.ieth", "infiniband.invariant.crc", "_ws.malformed", "frame.protocols"]


class Wrong(Exception):
    """What is wrong with a packet."""


def require(holds, what):
    if not holds:
        raise Wrong(what)


def by_scapy(path):
    """The packets: IP layers whose UDP payload is a BTH, whatever the port."""
    with PcapReader(path) as reader:
        packets = [packet[IP] for packet in reader if packet[UDP].dport != MARK_PORT]
    for port in {packet[UDP].dport for packet in packets}:
        bind_layers(UDP, BTH, dport=port)
    return [IP(raw(packet)[:packet.len]) for packet in packets]


def by_tshark(path, packets):
    """Each packet's FIELDS, as text: of several the first, since what it guesses of the payload comes behind."""
    port = collections.Counter(p for packet in packets for p in {packet[UDP].sport, packet[UDP].dport})
    command = ["tshark", "-n", "-r", path, "-Y", f"udp.dstport != {MARK_PORT}", "-o", f"infiniband.rroce.port:{port.most_common(1)[0][0]}", "-T", "fields",
               "-E", "occurrence=f", "--disable-protocol", "rpcordma"]  # which takes every SEND for its own
    for field in FIELDS:
        command += ["-e", field]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [dict(zip(FIELDS, line.split("\t"))) for line in lines]


def check_length(kind, place, payload, mtu, asked):
    if kind in ("READ", "ACK"):
        require(payload == 0, f"{kind} with {payload} bytes of payload")
    elif place in (FIRST, MIDDLE):
        require(payload == mtu, f"{payload} bytes in a packet that is not the last; the path MTU is {mtu}")
    else:
        require(payload <= mtu, f"{payload} bytes; the path MTU is {mtu}")
        require(place == ONLY or payload > 0, "the last packet of a message is empty")
    if kind == "WRITE" and asked:
        require(payload == int(asked) if place == ONLY else payload < int(asked),
                f"{payload} bytes of a WRITE of {asked}")


def check_packet(packet, fields, mtu):
    """Ends with the packet's kind."""
    bth = packet[BTH]
    require(raw(bth)[-4:] == bth.compute_icrc(None), "the ICRC is wrong")
    # Behind InfiniBand tshark guesses what the payload is, which is a file's here, and may find that malformed.
    guessed = not fields["frame.protocols"].endswith(":infiniband")
    require(fields["_ws.malformed"] == "" or guessed, "malformed")
    opcode = int(fields["infiniband.bth.opcode"] or -1)
    require(opcode == bth.opcode and opcode in OPCODES, f"opcode {opcode}")
    kind, place, headers = OPCODES[opcode]
    require(fields["infiniband.bth.tver"] == "0", "another header version than 0")
    require(int(fields["infiniband.bth.p_key"]) == 0xffff, "another P_Key than the default one")
    require(int(fields["infiniband.bth.psn"]) == bth.psn, "scapy and tshark read different numbers")
    pad = int(fields["infiniband.bth.padcnt"])
    payload = int(fields["ip.len"]) - 20 - 8 - 12 - headers - pad - 4
    require(payload >= 0 and (payload + pad) % 4 == 0 and pad < 4, f"{payload} bytes with a pad count of {pad}")
    check_length(kind, place, payload, mtu, fields["infiniband.reth.dmalen"])
    has_key = fields["infiniband.ieth"] == raw(bth)[12:12 + IETH].hex()
    require(has_key if kind == "INVALIDATE" else fields["infiniband.ieth"] == "", "the key to be invalidated")
    return "NAK" if kind == "ACK" and fields["infiniband.aeth.syndrome.opcode"] == "3" else kind


def path_mtu(rows):
    """That of the first packets of messages."""
    sizes = [int(row["ip.len"]) - 44 - OPCODES[opcode][2] for row in rows
             if (opcode := int(row["infiniband.bth.opcode"] or -1)) in OPCODES and OPCODES[opcode][1] == FIRST]
    return min(sizes, default=4096)


def check_capture(path, wanted):
    packets = by_scapy(path)
    rows = by_tshark(path, packets)
    kinds, wrong = collections.Counter(), 0
    mtu = path_mtu(rows)
    require(len(packets) == len(rows), f"scapy reads {len(packets)} packets, tshark {len(rows)}")
    for number, (packet, row) in enumerate(zip(packets, rows), 1):
        try:
            kinds[check_packet(packet, row, mtu)] += 1
        except (Wrong, ValueError) as error:
            wrong += 1
            print(f"{path}: packet {number}: {error}")
    print(f"{path.rsplit('/', 1)[-1]}: {len(packets)} packets, path MTU {mtu}, {wrong} wrong:",
          ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    require(mtu in (256, 512, 1024, 2048, 4096), f"a path MTU of {mtu}")
    missing = [kind for kind in wanted if not kinds[kind]]
    require(not missing, f"no {', '.join(missing)} among them")
    require(wrong == 0, f"{wrong} packets are wrong")


def main():
    bad = 0
    for argument in sys.argv[1:]:
        path, wanted = argument.rsplit(":", 1)
        try:
            check_capture(path, wanted.split(","))
        except Wrong as error:
            print(f"{path}: {error}")
            bad = 1
    return bad


sys.exit(main())
