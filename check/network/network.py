# SPDX-License-Identifier: BSD-2-Clause
"""Test networks: hosts behind check/network/switch, and programs that run in them.

The build folder is EXS_BUILDDIR. Needs root, or unshare -rn. All processes end with the network.
"""
import os
import shutil
import subprocess
import tempfile
import time

BUILD = os.environ.get("EXS_BUILDDIR", ".")


def wait_for_text(path, text, process):
    """Until the file has the text. Ends the program when the process that writes it has ended."""
    while text not in open(path, encoding="utf-8").read():
        if process.poll() is not None:
            raise SystemExit(f"{process.args[-1]}: ended: {open(path, encoding='utf-8').read()}")
        time.sleep(0.01)


class Network:
    """2 to 16 hosts. options: those of the switch, for example ["-b", "1000", "-d", "500"]."""

    def __init__(self, options=(), hosts=2):
        self.processes = []
        self.folder = tempfile.mkdtemp(prefix="exs-network.")
        self.namespaces = []
        self.prefix = "10.77.0."
        self.switch = subprocess.Popen([os.path.join(BUILD, "check/network/switch"), *options, str(hosts)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        for line in self.switch.stdout:
            if line == "ready\n":
                break
            self.namespaces.append(line.split()[2])
        if len(self.namespaces) != hosts:
            self.close()
            raise SystemExit("no network: see the message of check/network/switch above")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.switch.stdin.close()
        self.switch.wait()
        shutil.rmtree(self.folder)

    def address(self, host):
        return self.prefix + str(host)

    def start(self, host, command, env=None, **kwargs):
        """Starts a program in a host (1, 2, ...) and returns its Popen, which ends with the network at the latest."""
        process = subprocess.Popen(["nsenter", "--net=" + self.namespaces[host - 1], *command],
                                   env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, text=True, **kwargs)
        self.processes.append(process)
        return process

    def run(self, host, command, timeout=60, env=None):
        """Runs a program in a host to its end and returns its standard output. None: it failed, or took too long."""
        process = self.start(host, command, env, stdout=subprocess.PIPE)
        try:
            output = process.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None
        return output if process.returncode == 0 else None

    def check(self, host, command, text=""):
        """Runs a program that must succeed in a host, and returns its standard output."""
        command = ["nsenter", "--net=" + self.namespaces[host - 1], *command]
        return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout

    def listen(self, host, command, port):
        """Starts a program in a host, and waits until it listens at a TCP port."""
        process = self.start(host, command)
        while not self.check(host, ["ss", "-Hltn", f"sport = :{port}"]):
            if process.poll() is not None:
                raise SystemExit(f"{command[0]} ended before it listened")
            time.sleep(0.02)

    def use_cable(self, mtu):
        """A veth pair, which has no rate, between hosts 1 and 2, whose addresses are on it from now on."""
        self.prefix = "10.78.0."
        self.run(1, ["ip", "link", "add", "cable0", "mtu", str(mtu), "type", "veth",
                     "peer", "name", "cable0", "mtu", str(mtu), "netns", self.namespaces[1]])
        for host in (1, 2):
            self.run(host, ["ip", "address", "add", self.address(host) + "/24", "dev", "cable0"])
            self.run(host, ["ip", "link", "set", "cable0", "up"])

    def bytes_received(self, host):
        """Bytes that the switch has delivered to a host, a list by sending host."""
        self.switch.stdin.write("\n")
        lines = [self.switch.stdout.readline() for _ in self.namespaces]
        return [int(count) for count in lines[host - 1].split("bytes")[1].split()]


class Flow:
    """One of check/bench's programs, serving in one host and sending in another (check/bench/bench.h)."""

    def __init__(self, network, program, source, target, env, *work):
        """work: mode, size, total, and perhaps the path of a file."""
        self.env = {"EXS_TEST_ADDR": network.address(target), "EXS_DEVICE": "soft", **env}
        program = os.path.join(BUILD, "check/bench", program)
        self.server = network.start(target, [program, "serve", *work[:3]], self.env, stdout=subprocess.PIPE)
        port = self.server.stdout.readline().strip()
        self.client = network.start(source, [program, "send", *work[:3], port, *work[3:]], self.env,
                                    stdout=subprocess.PIPE)

    def result(self, timeout):
        """The first figure that the client prints: GB/s, or microseconds. None: it failed, or took too long."""
        try:
            output = self.client.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            output = ""
        self.stop()
        return float(output.split()[0]) if output.strip() else None

    def stop(self):
        for process in (self.client, self.server):
            if process.poll() is None:
                process.kill()
            process.communicate()
