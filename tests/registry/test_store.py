"""The file: versions, migrations, backups, and every way in which opening or writing can fail."""

import sqlite3
import subprocess
import sys
import textwrap

import pytest
from registry_samples import filled, source

from spade_registry import Registry, RegistryError, default_path, schema


def version(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_the_default_path_is_a_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("SPADE_REGISTRY", str(tmp_path / "mine.db"))
    assert default_path() == tmp_path / "mine.db"
    monkeypatch.delenv("SPADE_REGISTRY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "spade-envs" / "registry.db"


def test_a_new_file_has_write_ahead_logging_foreign_keys_and_the_version(registry, path):
    connection = registry.connection()
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    assert version(path) == schema.VERSION
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute("INSERT INTO checks (environment, stage, passed) VALUES (99, 'load', 1)")


def old_file(path):
    """A file as the first version wrote it, with one measured environment."""
    with Registry.open(path) as registry:
        filled(registry, [("lwlw", "wwww")])
    with sqlite3.connect(path, isolation_level=None) as connection:
        for view in schema.VIEWS:
            connection.execute(f"DROP VIEW {view}")
        connection.execute("DROP TABLE standings")
        connection.execute("PRAGMA user_version = 1")


def test_an_old_file_is_migrated_after_a_backup(path):
    old_file(path)
    with pytest.raises(RegistryError, match="to migrate it"):
        Registry.open(path, readonly=True)
    with Registry.open(path) as registry:
        assert registry.leaderboard()[0].regret == pytest.approx(0.5)
    assert version(path) == schema.VERSION
    (backup,) = path.parent.glob("registry.v1.*.backup.db")
    assert version(backup) == 1
    with sqlite3.connect(backup) as connection:
        assert connection.execute("SELECT count(*) FROM plays").fetchone() == (8,)


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, monkeypatch):
    old_file(path)

    def broken(connection):
        connection.execute("CREATE TABLE half (id INTEGER)")
        raise sqlite3.OperationalError("no such thing")

    monkeypatch.setattr(schema, "MIGRATIONS", (schema.MIGRATIONS[0], broken))
    with pytest.raises(RegistryError, match="no such thing"):
        Registry.open(path)
    assert version(path) == 1
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'half'").fetchone() == (0,)


@pytest.mark.parametrize("readonly", [False, True])
def test_a_file_of_a_newer_release_is_refused_and_left_alone(path, readonly):
    Registry.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with pytest.raises(RegistryError, match="upgrade spade-envs"):
        Registry.open(path, readonly=readonly)
    assert version(path) == schema.VERSION + 1


def test_another_database_and_another_file_are_refused(tmp_path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE birds (id INTEGER)")
    with pytest.raises(RegistryError, match="not a registry"):
        Registry.open(other)
    text = tmp_path / "notes.txt"
    text.write_text("Dear diary, " * 100)
    with pytest.raises(RegistryError, match="not an intact SQLite file"):
        Registry.open(text)
    assert text.read_text().startswith("Dear diary")
    with pytest.raises(RegistryError, match="cannot be opened"):
        Registry.open(text / "below" / "registry.db")


def test_a_full_disk_gives_a_clear_error_and_leaves_the_file_intact(path):
    """The kernel refuses to let the file grow, as a full disk does; the process and the file survive it."""
    with Registry.open(path) as registry:
        key = registry.add(source())
    script = textwrap.dedent("""
        import resource, signal, sys
        from spade_registry import NewEnvironment, Registry, RegistryError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        registry = Registry.open(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
        try:
            registry.add_all([NewEnvironment("x" * 50_000 + str(i), status="rejected") for i in range(100)])
        except RegistryError as error:
            print(error)
    """)
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert "full or failing" in done.stdout, done.stderr
    assert "free some space" in done.stdout
    with Registry.open(path) as registry:
        assert registry.connection().execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert list(registry.ids()) == [key]
        assert registry.connection().execute("SELECT count(*) FROM environments").fetchone() == (1,)


def test_a_read_only_file_can_be_read_and_says_why_it_cannot_be_written(path, tmp_path):
    """As an unprivileged user, because permissions do not bind root."""
    with Registry.open(path) as registry:
        registry.add(source())
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    script = textwrap.dedent("""
        import os, sys
        from spade_registry import Registry, RegistryError
        if os.getuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        print(len(list(Registry.open(sys.argv[1], readonly=True).ids())))
        try:
            Registry.open(sys.argv[1])
        except RegistryError as error:
            print(error)
    """)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.stat().st_mode & 0o5 != 0o5 and str(folder).startswith("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o5)
    try:
        done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    finally:
        tmp_path.chmod(0o755)
    if "Permission denied" in done.stderr and "spade_registry" in done.stderr:
        pytest.skip("another user cannot read this Python installation")
    count, message = done.stdout.splitlines()
    assert count == "1"
    assert "read-only" in message or "cannot be opened" in message
