"""How ci/install gets to install packages: at a terminal sudo asks for the password; without one, the line to paste is printed
and it fails; root needs no sudo; what is there is not installed again. All that it could call is made up, so that nothing
is installed.

Usage: install.py ROOT OUT
"""
import os
import pty
import select
import shlex
import shutil
import subprocess
import sys

root, out = (os.path.abspath(arg) for arg in sys.argv[1:3])
bash = shutil.which("bash")
failures = 0
FAKES = {
    "id": 'echo "$FAKE_UID"',
    "dpkg-query": '[[ -e $FAKE_STATE/installed || " $FAKE_THERE " == *" ${!#} "* ]] && echo -n installed',
    "apt-get": 'echo "apt-get $*" >>"$FAKE_STATE/calls"\n'
               '[[ $1 != install ]] || { [[ -z $FAKE_THERE ]] && : >"$FAKE_STATE/installed"; }',
    "sudo": '''echo "sudo $*" >>"$FAKE_STATE/calls"
if [[ $1 == -n ]]; then
    [[ $FAKE_SUDO == free ]] || { echo "sudo: a password is required" >&2 && exit 1; }
    shift
elif [[ $1 == -v || $FAKE_SUDO == password && ! -e $FAKE_STATE/known ]]; then
    echo -n "[sudo] password: " >/dev/tty && read -rs answer </dev/tty || exit 1
    [[ $answer == open ]] || exit 1
    : >"$FAKE_STATE/known"
    [[ $1 != -v ]] || exit 0
fi
exec "$@"''',
}


def expect(is_true, text):
    """Note a failure."""
    global failures
    if not is_true:
        failures += 1
        print(f"FAIL {text}")


def at_terminal(command, variables, answer):
    """Exit code and what a terminal shows; whoever asks for a password gets the answer."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(command[0], command, variables)
    shown = b""
    is_answered = False
    while select.select([terminal], [], [], 30)[0]:
        try:
            more = os.read(terminal, 4096)
        except OSError:  # nobody has it open any more
            break
        if not more:
            break
        shown += more
        if b"password: " in shown and not is_answered:
            is_answered = True
            os.write(terminal, answer + b"\n")
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode().replace("\r\n", "\n")


def install(name, uid, sudo, answer=None, is_installed=False, what="build", there=""):
    """Exit code, text, and the calls of ci/install; sudo: free, password or none; answer: there is a terminal; there: all
    packages that are, or can be, installed."""
    tools, state = os.path.join(out, name, "bin"), os.path.join(out, name, "state")
    os.makedirs(tools)
    os.makedirs(state)
    for tool in ("env", "cut", "ls", "true"):
        os.symlink(shutil.which(tool), os.path.join(tools, tool))
    for tool, text in FAKES.items():
        if tool == "sudo" and sudo == "none":
            continue
        with open(os.path.join(tools, tool), "w") as file:
            file.write(f"#!{bash}\n{text}\n")
        os.chmod(file.name, 0o755)
    if is_installed:
        with open(os.path.join(state, "installed"), "w"):
            pass
    variables = {"PATH": tools, "FAKE_UID": str(uid), "FAKE_STATE": state, "FAKE_SUDO": sudo, "FAKE_THERE": there}
    command = [bash, os.path.join(root, "ci/install"), what]
    if answer is not None:
        code, text = at_terminal(command, variables, answer)
    else:
        done = subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, check=False, start_new_session=True)
        code, text = done.returncode, done.stdout
    calls = []
    if os.path.exists(os.path.join(state, "calls")):
        with open(os.path.join(state, "calls")) as file:
            calls = file.read().splitlines()
    return code, text, calls


def expect_line(name, code, text, calls):
    """It failed, installed nothing, and printed one line that does it."""
    expect(code not in (0, None), f"{name}: exit {code}")
    expect(not any(call.startswith("apt-get") for call in calls), f"{name}: apt-get was called: {calls}")
    lines = [line for line in text.splitlines() if "apt-get install" in line]
    words = shlex.split(lines[0]) if len(lines) == 1 else []
    expect(words[:3] == ["sudo", "apt-get", "install"], f"{name}: no line to paste: {text}")
    expect({"gcc", "cmake", "libgtest-dev", "fiu-utils"} <= set(words), f"{name}: the line lacks packages: {words}")
    expect(not any("|" in word for word in words), f"{name}: the line has a choice: {words}")


shutil.rmtree(out, ignore_errors=True)
status, shown, called = install("no_terminal", 1000, "password")
expect_line("no terminal", status, shown, called)
expect(called == ["sudo -n true"], f"no terminal: sudo was asked for more than whether it may: {called}")
expect_line("no sudo", *install("no_sudo", 1000, "none"))

status, shown, called = install("terminal", 1000, "password", b"open")
expect(status == 0 and "password: " in shown, f"terminal: sudo does not ask: exit {status}: {shown}")
expect("sudo -v" in called and sum(call.startswith("apt-get install") for call in called) > 0,
       f"terminal: nothing was installed: {called}")
expect(all(called[at - 1].startswith("sudo ") for at, call in enumerate(called) if call.startswith("apt-get")),
       f"terminal: apt-get without sudo: {called}")
status, shown, called = install("wrong_password", 1000, "password", b"wrong")
expect_line("wrong password", status, shown, called)

status, shown, called = install("free_sudo", 1000, "free")
expect(status == 0 and "sudo -v" not in called and "password" not in shown, f"free sudo: exit {status}: {shown}")
for name, terminal_answer in (("root", None), ("root_at_terminal", b"open")):
    status, shown, called = install(name, 0, "password", terminal_answer)
    expect(status == 0 and any(call.startswith("apt-get install") for call in called), f"{name}: exit {status}: {shown}")
    expect(not any(call.startswith("sudo") for call in called), f"{name}: root asks sudo: {called}")
# What is only wanted, and cannot be had, is told with what is done without it, and is no failure.
with open(os.path.join(root, "ci/install")) as script:
    needed = script.read().split('build="', 1)[1].split('"', 1)[0].replace("|", " ")
for uid, wanted in ((0, "build"), (0, "deep"), (1000, "test")):
    name = f"optional_{uid}_{wanted}"
    status, shown, called = install(name, uid, "none", what=wanted, there=" ".join(needed.split()))
    lines = [line for line in shown.splitlines() if " is missing; without it: no " in line]
    expect(status == 0, f"{name}: exit {status}: {shown}")
    expect(len(lines) >= 4 and not any(line.endswith(": no ") for line in lines), f"{name}: not said what is done without: {shown}")
for uid in (0, 1000):
    status, shown, called = install(f"installed_{uid}", uid, "password", is_installed=True)
    expect((status, shown, called) == (0, "", []), f"all is there: exit {status}: {shown} {called}")
shutil.rmtree(out)
sys.exit(failures > 0)
