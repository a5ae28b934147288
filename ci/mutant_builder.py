"""Builds the program, or a test of it, around one mutated file; ci/mutation.py judges what comes out."""
import contextlib
import glob
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import reach

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build/mutation")
MUSEUM = os.path.join(ROOT, "tests/coll")


class Builder:
    """Compiles one file and links a program around it. programs: those that can be linked; the first one is what build()
    links if it is not told."""

    def __init__(self, tree, *options, programs=("ddprove",)):
        os.makedirs(BUILD, exist_ok=True)
        self.programs = programs
        self.tree = os.path.join(BUILD, tree)
        self.configure(self.tree, "-O1", *options)
        with open(f"{self.tree}/compile_commands.json", encoding="utf-8") as file:
            self.compiles = {os.path.relpath(entry["file"], ROOT): entry["command"] for entry in json.load(file)}
        self.links = {program: self.link_of(program) for program in programs}
        self.originals = {}

    def link_of(self, program):
        """The command that links it."""
        commands = self.call(["ninja", "-C", self.tree, "-t", "commands", f"bin/{program}"]).splitlines()
        link = next(line for line in reversed(commands) if f" -o bin/{program} " in line)
        return next(part for part in link.split("&&") if f" -o bin/{program} " in part).strip()

    @classmethod
    def on_standins(cls):
        """Of the program on the stand-ins of a card; None where it cannot be built."""
        with contextlib.suppress(SystemExit):
            builder = cls("standin", "-DDDPROVE_BUILD_TESTS=ON", "-DDDPROVE_WITH_CUDA=AUTO", "-DDDPROVE_WITH_NCCL=AUTO",
                          programs=("ddprove_standin",))
            for name in ("cublas", "nccl"):
                os.environ[f"DDPROVE_{name.upper()}"] = f"{builder.tree}/lib/libddp_{name}_standin.so"
            return builder
        return None

    def plugins(self):
        """The libraries of the template, which emits, and of a user's all-reduce in both styles; none without a compiler."""
        out = os.path.join(BUILD, "plugins")
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        subprocess.run([f"{self.tree}/bin/ddprove", "coll", "new", "emits"], cwd=out, stdout=subprocess.DEVNULL, check=True)
        sources = [("emits", [f"{out}/emits/emits.c"]),
                   *((what, [f"-DWHAT={what}", "-DCALLS=18", "-I", f"{ROOT}/harness/plugin", f"{ROOT}/tests/coll/opaque.c"])
                     for what in ("RIGHT", "POSTED"))]
        for name, words in sources:
            with contextlib.suppress(FileNotFoundError):
                self.call(["cc", "-w", "-shared", "-fPIC", "-o", f"{out}/{name}.so", *words, "-lm"])
        return sorted(glob.glob(f"{out}/*.so"))

    def exhibits(self):
        """Plug-ins with right and with wrong all-reduces: {library: worlds to check them with}."""
        out = os.path.join(BUILD, "museum")
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        found = {}
        with open(f"{MUSEUM}/museum.txt", encoding="utf-8") as file:
            numbers = [line.split()[0] for line in file if line[0].isdigit()]
        for number in numbers:
            with contextlib.suppress(FileNotFoundError):
                self.call(["cc", "-std=gnu99", "-w", "-shared", "-fPIC", "-I", f"{ROOT}/harness/plugin", "-I", MUSEUM,
                           f"-DBUG={number}", "-o", f"{out}/{number}.so", f"{MUSEUM}/museum.c"])
                found[f"{out}/{number}.so"] = "9" if number == "103" else "1-4"
        return found

    def reach(self, sources):
        """Which scenarios run which line of these files."""
        tree = f"{BUILD}/coverage"
        self.configure(tree, "-O0 --coverage")
        return reach.Reach(ROOT, tree, self.objects(tree, set(sources)))

    @staticmethod
    def objects(tree, wanted):
        """Where gcov's data of these sources lie."""
        found = {}
        with open(f"{tree}/compile_commands.json", encoding="utf-8") as file:
            for entry in json.load(file):
                words = shlex.split(entry["command"])
                path = os.path.relpath(entry["file"], ROOT)
                found.setdefault(path, os.path.join(tree, words[words.index("-o") + 1])[:-2] + ".gcda")
        return {path: data for path, data in found.items() if path in wanted}

    def configure(self, tree, flags, *options):
        """Build ddprove, and what it is linked from, in a tree of its own."""
        self.call(["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
                   f"-DCMAKE_C_FLAGS={flags}", "-DDDPROVE_BUILD_TESTS=OFF", "-DDDPROVE_WITH_CUDA=OFF",
                   "-DDDPROVE_WITH_NCCL=OFF", *options])
        self.call(["cmake", "--build", tree, "--target", *self.programs])
        subprocess.run(["cmake", "--build", tree, "--target", "ddp_mpi_module"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)  # there may be no MPI

    @staticmethod
    def call(command):
        """Its output; its failure ends the program."""
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{shlex.join(command)}:\n{done.stdout[-2000:]}")
        return done.stdout

    def compile(self, path, text, folder):
        """The object's file, or None if the compiler refuses it."""
        source = os.path.join(folder, os.path.basename(path))
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        words = shlex.split(self.compiles[path])
        words = [word for word in words if not word.startswith(("-MD", "-W", "-g"))]
        words[words.index("-o") + 1] = source + ".o"
        words[-1] = source
        # Asserts print their line: every line is said to be in the original's place.
        words += ["-w", f"-ffile-prefix-map={folder}=.", f"-I{os.path.join(ROOT, os.path.dirname(path))}"]
        done = subprocess.run(words, cwd=self.tree, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False, timeout=120)
        return source + ".o" if done.returncode == 0 else None

    @staticmethod
    def code_of(object_path):
        """A digest of the object."""
        with open(object_path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def original_code(self, path, folder):
        """The digest of the file as it is."""
        if path not in self.originals:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                self.originals[path] = self.code_of(self.compile(path, file.read(), folder))
        return self.originals[path]

    def build(self, object_path, program, name=None):
        """Link the program of this name to where program says; the mutated object comes ahead of the archives. False: the
        linker refuses it."""
        name = name or self.programs[0]
        command = self.links[name].replace(f" -o bin/{name} ", f" -o {program} {object_path} ", 1)
        done = subprocess.run(command, shell=True, cwd=self.tree, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0
