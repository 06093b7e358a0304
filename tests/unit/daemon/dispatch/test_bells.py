from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from sandbox_skills.daemon.dispatch.base import Node
from sandbox_skills.daemon.dispatch.ends import Ends
from sandbox_skills.daemon.dispatch.work_bell import Offer, WorkBell
from sandbox_skills.daemon.truth.run import NewRun, Run, RunState
from sandbox_skills.daemon.truth.runs import new_run

pytestmark = pytest.mark.anyio

SKILL, AGENT = frozenset({"docker", "skill"}), frozenset({"agent"})


def a_run(run_id: str) -> Run:
    return replace(new_run(run_id, NewRun("acme", {}), now=0.0), state=RunState.FINISHED)


async def test_a_node_looks_once_unasked_and_then_when_something_has_changed_for_it() -> None:
    bell = WorkBell()
    skill, agent = bell.sign(Node("1", 1, SKILL)), bell.sign(Node("2", 1, AGENT))
    assert (skill.is_set(), agent.is_set()) == (True, True)
    skill.clear()
    agent.clear()
    bell.ring(frozenset({"skill"}))
    assert (skill.is_set(), agent.is_set()) == (True, False)
    bell.ring()
    assert agent.is_set()


async def test_a_sign_is_the_nodes_own_whatever_it_can_do_by_now() -> None:
    bell = WorkBell()
    sign = bell.sign(Node("1", 1, AGENT))
    sign.clear()
    assert bell.sign(Node("1", 1, SKILL)) is sign
    bell.ring(AGENT)
    assert not sign.is_set()
    bell.ring(SKILL)
    assert sign.is_set()


def listening() -> tuple[WorkBell, Node, asyncio.Event]:
    """Returns a bell, and a node that has looked."""
    bell, node = WorkBell(), Node("1", 8, SKILL)
    sign = bell.sign(node)
    sign.clear()
    return bell, node, sign


async def test_an_offer_is_taken_once_by_a_run_that_the_node_can_do() -> None:
    bell, node, sign = listening()
    assert bell.take(SKILL) is None
    with bell.offering(Offer(node, 2)):
        assert bell.take(AGENT) is None
        taken = bell.take(SKILL)
        assert taken is not None
        assert bell.take(SKILL) is None
        assert not taken.woken.is_set()
        bell.give(taken, [])
        assert taken.woken.is_set()
        assert await taken.leases() == []
        assert sign.is_set()
    assert bell.take(SKILL) is None


async def test_who_is_awake_or_gone_has_no_offer() -> None:
    bell, node, sign = listening()
    offer = Offer(node, 2)
    with bell.offering(offer):
        bell.ring(SKILL)
        assert offer.woken.is_set()
        assert bell.take(SKILL) is None
    with bell.offering(late := Offer(node, 2)):
        assert late.woken.is_set()
    sign.clear()
    with bell.offering(Offer(node, 2)):
        pass
    assert bell.take(SKILL) is None
    assert await offer.leases() == ()


async def test_everybody_who_awaits_a_run_is_told_and_nobody_else() -> None:
    ends = Ends()
    with ends.awaiting("a") as one, ends.awaiting("a") as two, ends.awaiting("b") as other:
        ends.tell(a_run("a"))
        ends.tell(a_run("a"))
        assert (await one, await two) == (a_run("a"), a_run("a"))
        assert not other.done()


async def test_who_has_given_up_is_forgotten() -> None:
    ends = Ends()
    with ends.awaiting("a") as gone:
        gone.cancel()
        with ends.awaiting("a") as there:
            ends.tell(a_run("a"))
            assert await there == a_run("a")
    ends.tell(a_run("a"))
    with ends.awaiting("a") as late:
        await asyncio.sleep(0)
        assert not late.done()
