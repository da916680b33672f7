"""Set-up runs its tasks, keeps environments, and makes a moved one right; it finds a CPython, or gets one."""
import fcntl
import functools
import hashlib
import http.server
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading

import pytest

from ascpipe.errors import RunDirError
from tests.support import tree

REAL = os.path.realpath(sys.executable)
OF_TESTS = "python{}.{}".format(*sys.version_info[:2])  #: name of the interpreter that runs the tests


def loaded(name):
    """A script of scripts/ as a module."""
    spec = importlib.util.spec_from_file_location(name, str(tree.ROOT / "scripts" / (name + ".py")))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


# ---- running tasks

@pytest.fixture
def set_up(monkeypatch):
    """scripts/set_up.py; ``run({name: (after, text)})``: its exit code for tasks that are shell scripts."""
    monkeypatch.setattr(sys, "path", [str(tree.ROOT / "scripts"), *sys.path])
    module = loaded("set_up")
    monkeypatch.setattr(module, "QUIET_S", 0.0)

    def run(scripts):
        monkeypatch.setattr(module, "command_of", lambda task, dev: ["sh", "-c", scripts[task.name][1]])
        return module.run_all([module.plan.Task(name, "doing " + name, after, 5.0)
                               for name, (after, _) in scripts.items()], False)

    module.run = run
    return module


def test_tasks_that_do_not_need_each_other_run_at_the_same_time(set_up, tmp_path, capfd):
    meet = "touch {0}/{1}; while [ ! -e {0}/{2} ]; do sleep 0.05; done"
    assert set_up.run({"a": ((), meet.format(tmp_path, "a", "b")), "b": ((), meet.format(tmp_path, "b", "a")),
                       "c": (("a", "b"), "test -e {0}/a && test -e {0}/b".format(tmp_path))}) == 0
    said = capfd.readouterr().err.splitlines()
    assert re.fullmatch(r"setup: 0:00  0 of 3 done, about 0:\d\d left \| doing a, doing b", said[0])
    assert "2 of 3 done" in said[-2] and "doing c" in said[-2] and re.fullmatch(r"setup: done in 0:0\d", said[-1])


@pytest.mark.parametrize(("code", "ends_with"), [(1, 1), (3, 1), (2, 2)])
def test_a_task_that_fails_ends_the_others_and_shows_all_that_it_printed(set_up, tmp_path, capfd, code, ends_with):
    others = "echo $$ >{0}/pid.new; mv {0}/pid.new {0}/pid; sleep 50 & wait".format(tmp_path)
    fails = "while [ ! -e {}/pid ]; do sleep 0.05; done; seq 1 3; echo why >&2; exit {}".format(tmp_path, code)
    assert set_up.run({"others": ((), others), "fails": ((), fails), "never": (("fails",), "touch {}/never".format(
        tmp_path))}) == ends_with
    said = capfd.readouterr().err
    assert said.endswith("setup: FAILED: doing fails (exit code {}). It printed:\n1\n2\n3\nwhy\n".format(code))
    assert not os.path.exists("/proc/" + (tmp_path / "pid").read_text().strip())
    assert not (tmp_path / "never").exists()


def test_the_line_is_repeated_while_nothing_changes(set_up, capfd, monkeypatch):
    monkeypatch.setattr(set_up, "TICK_S", 0.2)
    assert set_up.run({"a": ((), "sleep 0.5; echo '[1/4] compiled x'; sleep 0.7")}) == 0
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) >= 4 and any(line.endswith("doing a 1/4") for line in lines)


def test_little_to_do_is_done_without_a_word(set_up, capfd, monkeypatch):
    monkeypatch.setattr(set_up, "QUIET_S", 60.0)
    assert set_up.run({"a": ((), "echo words")}) == 0
    assert capfd.readouterr() == ("", "")


# ---- environments in the user's cache

@pytest.fixture
def kept(set_up, tmp_path, monkeypatch):
    """kept_environments, and an environment with a file, a link to it, and a link to a folder."""
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    script(tmp_path / "one/lib/site/file.py", "words")
    os.symlink("lib/site/file.py", str(tmp_path / "one/link"))
    os.symlink("lib", str(tmp_path / "one/lib64"))
    return set_up.kept_environments


def test_an_environment_is_taken_from_the_cache_with_the_same_files(kept, tmp_path):
    assert kept.keep("abc", str(tmp_path / "one")) and kept.find("other") is None
    (tmp_path / "two").mkdir()
    kept.replace(kept.find("abc"), str(tmp_path / "two"))
    assert os.path.samefile(str(tmp_path / "one/lib/site/file.py"), str(tmp_path / "two/lib/site/file.py"))
    assert os.readlink(str(tmp_path / "two/link")) == "lib/site/file.py" and os.readlink(
        str(tmp_path / "two/lib64")) == "lib"


def test_an_environment_with_a_file_that_was_changed_in_place_is_removed(kept, tmp_path):
    kept.keep("abc", str(tmp_path / "one"))
    (tmp_path / "one/lib/site/file.py").write_text("other words")
    assert kept.find("abc") is None and not list((tmp_path / "cache").glob("environment-*"))


def test_a_file_that_was_replaced_stays_as_it_was_in_the_cache(kept, tmp_path):
    kept.keep("abc", str(tmp_path / "one"))
    script(tmp_path / "new", "other words").replace(tmp_path / "one/lib/site/file.py")
    assert kept.find("abc") is not None


def test_an_environment_that_others_may_change_is_refused(kept, tmp_path):
    kept.keep("abc", str(tmp_path / "one"))
    os.chmod(str(tmp_path / "cache/environment-abc"), 0o777)
    with pytest.raises(RunDirError, match="others may write to it"):
        kept.find("abc")


def test_the_oldest_environments_leave_the_cache(kept, tmp_path):
    for number in range(kept.KEPT + 2):
        kept.keep(str(number), str(tmp_path / "one"))
        os.utime(str(tmp_path / "cache/environment-{}".format(number)), (number, number))
    assert len(list((tmp_path / "cache").glob("environment-*"))) == kept.KEPT
    assert kept.find(str(number)) is not None


def test_another_lock_or_interpreter_has_another_environment(kept, tmp_path):
    lock, other = script(tmp_path / "lock", "a==1"), script(tmp_path / "other", "a==2")
    digests = {kept.digest_of(REAL, lock), kept.digest_of(REAL, other), kept.digest_of(REAL, lock, other),
               kept.digest_of("/bin/sh", lock)}
    assert len(digests) == 4 and kept.digest_of(sys.executable, lock) in digests


# ---- trees of other users

@pytest.fixture
def tree_of_another(tmp_path):
    """A tree that another user has set up, in which ``ascpipe`` says what it was called with; a command to be that
    user."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can be another user, by setpriv")
    for name in ("setup.sh", "find_python.sh"):
        script(tmp_path / "tree/scripts" / name, (tree.ROOT / "scripts" / name).read_text())
    for name in (".venv/.stamps/tree", "tfops/libascpipe_ops.so"):
        script(tmp_path / "tree" / name, "")
    script(tmp_path / "tree/.venv/bin/ascpipe", "#!/bin/sh\necho called: \"$@\"\n")
    (tmp_path / "home").mkdir()
    for folder in [tmp_path, *tmp_path.parents][:-1]:  # pytest's are for their user alone
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o711)
    shutil.chown(str(tmp_path / "home"), 65534, 65534)

    def set_up(*arguments):
        return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash",
                               str(tmp_path / "tree/scripts/setup.sh"), *arguments], cwd="/", text=True, timeout=20,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")}, capture_output=True)

    return set_up


def test_another_user_of_a_tree_gets_kernels_of_their_own_and_changes_nothing_in_it(tree_of_another):
    done = tree_of_another()
    assert done.returncode == 0
    assert "compiling the kernels of the workers, once for each user" in done.stderr and "called: warmup" in done.stderr
    refused = tree_of_another("dev")
    assert refused.returncode == 2 and "let that user run `make dev-setup`, or clone it" in refused.stderr


# ---- finding one

def found(folder, **environment):
    """Exit code of find_python run in ``folder``, and what it printed."""
    done = subprocess.run(
        ["bash", "-c", '. "$0"; if find_python; then echo "$FOUND"; else explain_python; exit 2; fi',
         str(tree.ROOT / "scripts/find_python.sh")], cwd=str(folder), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=20,
        env={"PATH": str(folder / "bin"), "HOME": str(folder / "home"), **environment})
    return done.returncode, done.stdout


@pytest.fixture
def bare(tmp_path):
    """A machine without a CPython on the path."""
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "cat", "sed"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    return tmp_path


def test_without_one_each_candidate_is_named_with_what_is_wrong_with_it(bare):
    versions = bare / "home/.pyenv/versions"
    script(versions / "3.7.1/bin/python3.7", "#!/bin/sh\necho 'libpython3.7m.so.1.0: cannot open' >&2\nexit 127\n")
    script(versions / "3.7.2/bin/python3.7", "#!/bin/sh\necho cpython 3.8\n")
    script(versions / "3.7.3/bin/python3.7", "").chmod(0o644)
    code, said = found(bare)
    assert code == 2
    assert "python3.7: there is none on the PATH" in said
    assert "3.7.1/bin/python3.7: it does not start: libpython3.7m.so.1.0: cannot open\n" in said
    assert "3.7.2/bin/python3.7: it is cpython 3.8\n" in said
    assert "3.7.3/bin/python3.7: it does not start: " in said and "Permission denied\n" in said
    assert "make python" in said and "pipx run uv==" in said


def test_a_cpython_3_7_is_preferred_to_3_11_and_that_to_3_10(bare):
    versions = bare / "home/.pyenv/versions"
    for version in ("3.10", "3.11", "3.7"):
        newest = script(versions / "{0}.4/bin/python{0}".format(version),
                        "#!/bin/sh\necho cpython {}\n".format(version))
        assert found(bare) == (0, "{}\n".format(newest))
    for one in versions.rglob("python*"):
        one.unlink()
    script(bare / "bin/python3.12", "#!/bin/sh\necho cpython 3.12\n")
    assert found(bare)[0] == 2


def test_one_that_is_named_is_taken_or_said_to_be_wrong_and_no_other_is_looked_for(bare):
    script(bare / ".python/cpython/bin" / OF_TESTS, "#!/bin/sh\nexec {} \"$@\"\n".format(REAL))
    assert found(bare, PYTHON=REAL) == (0, REAL + "\n")
    code, said = found(bare, PYTHON="/nowhere/python3.7")
    assert code == 2 and "/nowhere/python3.7: it does not start: " in said and "there is none" not in said


def test_one_in_the_tree_is_found(bare):
    ours = script(bare / ".python/cpython/bin" / OF_TESTS, "#!/bin/sh\nexec {} \"$@\"\n".format(REAL))
    assert found(bare) == (0, "{}\n".format(ours))


# ---- getting one

@pytest.fixture
def mirror(tmp_path):
    """Releases on this machine: its address, and the file that stands in for the archive."""
    if not shutil.which("zstd"):
        pytest.skip("zstd is not there")
    get_python = loaded("get_python")
    script(tmp_path / "made/python/install/bin/python3.7", "#!/bin/sh\necho cpython 3.7\n")
    script(tmp_path / "made/python/build/object.o", "not needed")
    archive = tmp_path / "releases" / get_python.ARCHIVE
    archive.parent.mkdir(parents=True)
    subprocess.run(["tar", "--zstd", "-cf", str(archive), "-C", str(tmp_path / "made"), "python"], check=True)
    handler = functools.partial(Quiet, directory=str(tmp_path / "releases"))
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield get_python, "http://127.0.0.1:{}".format(server.server_address[1]), archive
        server.shutdown()
        serving.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        """Prints nothing."""


def test_an_archive_with_the_digest_that_was_published_gives_an_interpreter_that_set_up_finds(mirror, bare):
    get_python, address, archive = mirror
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    python = get_python.install(bare / ".python", address, digest)
    assert os.listdir(str(bare / ".python")) == [get_python.NAME]
    assert found(bare) == (0, "{}\n".format(python))
    assert get_python.install(bare / ".python", "http://127.0.0.1:1", digest) == python  # it is there


def test_another_file_is_refused_and_nothing_is_left(mirror, tmp_path):
    get_python, address, _ = mirror
    done = subprocess.run([sys.executable, str(tree.ROOT / "scripts/get_python.py"), "--into", str(tmp_path / "into")],
                          env={**os.environ, "PYTHON_MIRROR": address}, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and not os.listdir(str(tmp_path / "into"))
    assert "expected " + get_python.SHA256 in done.stderr and "was removed" in done.stderr


def test_a_place_that_has_no_archive_is_named(mirror, tmp_path):
    get_python, address, archive = mirror
    archive.unlink()
    with pytest.raises(get_python.Refused, match="404.*PYTHON_MIRROR"):
        get_python.install(tmp_path / "into", address, "")


# ---- moving one

@pytest.mark.parametrize("place", ["new", "a new place"])
def test_scripts_of_a_copied_environment_lead_to_the_new_place(tmp_path, place):
    old, new = tmp_path / "old/.venv", tmp_path / place / ".venv"
    subprocess.run([REAL, "-m", "venv", "--without-pip", str(old)], check=True)
    move = loaded("move_venv")
    script(old / "bin/tool", move.header("{}/bin/python".format(old)) + "import sys\nprint(sys.prefix)\n")
    shutil.copytree(str(old), str(new), symlinks=True)
    subprocess.run([str(new / "bin/python"), str(tree.ROOT / "scripts/move_venv.py"), str(old), str(new)], check=True)
    assert subprocess.check_output([str(new / "bin/tool")], universal_newlines=True) == "{}\n".format(new)
    ask = '. "$0"; command -v tool; echo "$VIRTUAL_ENV"'
    said = subprocess.check_output(["bash", "-c", ask, str(new / "bin/activate")], universal_newlines=True)
    assert said == "{0}/bin/tool\n{0}\n".format(new)
    assert str(old) in (old / "bin/activate").read_text()


@pytest.mark.parametrize("place", ["/a b/.venv", "/" + "x" * 130])
def test_a_place_that_no_first_line_can_name_gets_a_line_for_the_shell_and_back(place):
    move = loaded("move_venv")
    plain = "#!/a/.venv/bin/{}\nprint()\n".format(OF_TESTS)
    there = move.moved(plain, "/a/.venv", place)
    assert there == "#!/bin/sh\n'''exec' \"{}/bin/{}\" \"$0\" \"$@\"\n' '''\nprint()\n".format(place, OF_TESTS)
    assert move.moved(there, place, "/a/.venv") == plain


# ---- Horovod

def test_a_tree_that_waits_for_another_one_that_builds_horovod_says_so(tmp_path):
    """The tools are stand-ins; the build makes an empty wheel."""
    root = tmp_path / "tree"
    (root / "scripts").mkdir(parents=True)
    for name in ("scripts/ranks.sh", "requirements-ranks.lock"):
        shutil.copy(str(tree.ROOT / name), str(root / name))
    script(root / ".venv/bin/python", """#!/bin/sh
        case "$*" in
          *tensorflow*) echo 3.7.16 1.15.5 ;;
          *--wheel-dir*) while [ "$1" != --wheel-dir ]; do shift; done; touch "$2/horovod-0.whl" ;;
        esac""")
    script(tmp_path / "bin/cmake", "#!/bin/sh\necho cmake version 3.25.1\n")
    script(tmp_path / "bin/g++", "#!/bin/sh\necho 12.2.0\n")
    wheels = tmp_path / "cache/ascpipe/wheels"
    wheels.mkdir(parents=True)
    environment = {**os.environ, "PATH": "{}:{}".format(tmp_path / "bin", os.environ["PATH"]),
                   "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with open(str(wheels / "lock"), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = subprocess.Popen(["bash", str(root / "scripts/ranks.sh")], env=environment, stderr=subprocess.PIPE)
        said = waiting.stderr.readline().decode()
        assert said == "ranks: another tree builds Horovod; waiting for it (its lock: {}/lock)\n".format(wheels)
    _, rest = waiting.communicate(timeout=30)
    assert waiting.returncode == 0, rest
    assert [line.split(",")[0] for line in rest.decode().splitlines()] == [
        "ranks: building Horovod for 3.7.16 1.15.5", "ranks: installing Horovod and what it needs into .venv"]
