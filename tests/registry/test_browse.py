"""Browsing: over HTTP without a server, and in a real browser where one is installed."""

import asyncio
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

pytest.importorskip("datasette")

from registry_samples import filled, plays, source

from spade_registry import NewEnvironment, Origin
from spade_registry.browse.metadata import QUERIES
from spade_registry.browse.server import application


@pytest.fixture
def full(registry):
    ids, run = filled(registry, [("lwlw", "wwww"), ("llll", "wwww")])
    registry.commit_round(run, 2, plays=plays(ids[0], run, 2, "wwww"), metrics={"spade/player/win_rate": 0.5})
    child = NewEnvironment(source("Child", 77), skill="Optimization", origin=Origin(run=run, step=3, parents=ids[:1]))
    registry.add_all([child])
    return registry, ids


def get(registry, path):
    async def ask():
        return await application(registry).client.get(path)

    return asyncio.run(ask())


def test_tables_have_descriptions_and_facets(full):
    registry, _ = full
    front = get(registry, "/registry")
    assert front.status_code == 200
    assert "A registry of environments" in get(registry, "/").text
    table = get(registry, "/registry/environments")
    assert "Programs with their status" in table.text
    assert "Gymnasium id" in table.text, "comments of columns are shown"
    found = get(registry, "/registry/environments.json?_facet=skill&_shape=objects").json()
    facets = {one["value"]: one["count"] for one in found["facet_results"]["skill"]["results"]}
    assert facets == {"Logical Deduction": 2, "Optimization": 1}


@pytest.mark.parametrize("name", QUERIES)
def test_canned_queries_run(full, name):
    registry, ids = full
    found = get(registry, f"/registry/{name}.json?_shape=objects&run=1&environment=Child")
    assert found.status_code == 200, found.text
    rows = found.json()["rows"]
    if name == "most_taught":
        assert (rows[0]["env_id"], rows[0]["first_win_rate"], rows[0]["last_win_rate"]) == (ids[0], 0.5, 1.0)
    if name == "lineage_of":
        assert rows[0]["parent"] == ids[0]
    if name == "learning":
        assert [row["win_rate"] for row in rows] == [None, 0.5]


def test_an_environment_has_a_page_with_source_hint_and_curve(full):
    registry, ids = full
    page = get(registry, "/-/environment/" + ids[0].removeprefix("spade/"))
    assert page.status_code == 200
    for part in ("<svg", "polyline", "hint 0", "Number0Env", "95 % interval", "<span style"):
        assert part in page.text
    assert get(registry, "/-/environment/Nothing-000000000000-v0").status_code == 404


def test_nothing_can_be_written(full):
    registry, _ = full
    answer = get(registry, "/registry?sql=delete+from+plays")
    assert "Statement must be a SELECT" in answer.text
    assert len(list(registry.plays(next(registry.ids())))) == 12


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def served(full):
    """The command, in a process of its own: its address."""
    registry, ids = full
    port = free_port()
    words = [sys.executable, "-m", "spade_envs", "browse", "--registry", str(registry.path), "--port", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 60
    while True:
        assert server.poll() is None, server.stdout.read()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/registry", timeout=2).read()
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    yield f"http://127.0.0.1:{port}", ids
    server.terminate()
    server.wait(20)


def test_in_a_browser_a_facet_filters_and_the_page_shows_everything(served):
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no chromium with chromedriver is installed")
    selenium = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.common.by import By

    address, ids = served
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(word)
    browser = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    try:
        browser.get(address + "/registry/environments")
        assert "environments" in browser.title
        before = len(browser.find_elements(By.CSS_SELECTOR, "table.rows-and-columns tbody tr"))
        browser.find_element(By.PARTIAL_LINK_TEXT, "Optimization").click()
        assert len(browser.find_elements(By.CSS_SELECTOR, "table.rows-and-columns tbody tr")) == 1 < before
        browser.get(address + "/registry/frontier")
        browser.get(address + "/registry/environments")
        browser.find_element(By.PARTIAL_LINK_TEXT, ids[0]).click()
        assert browser.find_element(By.CSS_SELECTOR, "#curve svg").is_displayed()
        assert "class Number0Env" in browser.find_element(By.ID, "source").text
        browser.find_element(By.CSS_SELECTOR, "#hint summary").click()
        assert "hint 0" in browser.find_element(By.ID, "hint").text
    finally:
        browser.quit()
