from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.dispatch.fairness import TenantQueue, Waiting, choose


@st.composite
def queues(draw: st.DrawFn) -> list[TenantQueue]:
    sizes = draw(st.lists(st.integers(0, 12), max_size=6))
    found = []
    for number, size in enumerate(sizes):
        tenant = f"t{number}"
        sessions = draw(st.lists(st.none() | st.sampled_from(["a", "b"]), min_size=size, max_size=size))
        waiting = [
            Waiting(f"{tenant}-{place}", one and f"{tenant}-{one}") for place, one in enumerate(sessions)
        ]
        found.append(
            TenantQueue(
                tenant,
                waiting,
                running=draw(st.integers(0, 4)),
                concurrency=draw(st.integers(1, 5)),
                turn=draw(st.integers(0, 5)),
            )
        )
    return found


@given(queues(), st.integers(0, 20), st.integers(1, 2))
def test_no_cap_is_broken(tenants: list[TenantQueue], slots: int, per_session: int) -> None:
    chosen = choose(tenants, slots=slots, per_session=per_session)
    assert len(chosen) <= slots
    assert len(set(chosen)) == len(chosen)
    of_tenant = Counter(tenant for tenant, _ in chosen)
    for one in tenants:
        assert of_tenant[one.tenant_id] <= max(0, one.concurrency - one.running)
    session_of = {run.run_id: run.session_id for one in tenants for run in one.waiting}
    sessions = Counter(session_of[run] for _, run in chosen if session_of[run])
    assert all(count <= per_session for count in sessions.values())


@given(queues(), st.integers(0, 20))
def test_no_slot_stays_free_while_a_run_could_go(tenants: list[TenantQueue], slots: int) -> None:
    chosen = choose(tenants, slots=slots)
    taken = {run for _, run in chosen}
    busy = {run.session_id for one in tenants for run in one.waiting if run.run_id in taken}
    of_tenant = Counter(tenant for tenant, _ in chosen)
    could = [
        run
        for one in tenants
        if one.running + of_tenant[one.tenant_id] < one.concurrency
        for run in one.waiting
        if run.run_id not in taken and (run.session_id is None or run.session_id not in busy)
    ]
    assert len(chosen) == slots or not could


@given(queues(), st.integers(0, 20))
def test_nobody_gets_a_second_run_before_everybody_who_can_has_one(
    tenants: list[TenantQueue], slots: int
) -> None:
    chosen = [tenant for tenant, _ in choose(tenants, slots=slots)]
    could = {one.tenant_id for one in tenants if one.waiting and one.running < one.concurrency}
    first_round = chosen[: len(could)]
    assert len(set(first_round)) == len(first_round)
    assert set(chosen) <= could


@given(queues(), st.integers(0, 20))
def test_a_tenants_runs_without_a_session_keep_their_order(tenants: list[TenantQueue], slots: int) -> None:
    place = {run.run_id: number for one in tenants for number, run in enumerate(one.waiting)}
    free = {run.run_id for one in tenants for run in one.waiting if run.session_id is None}
    for one in tenants:
        mine = [
            place[run]
            for tenant, run in choose(tenants, slots=slots)
            if tenant == one.tenant_id and run in free
        ]
        assert mine == sorted(mine)


@given(st.integers(1, 1000), st.integers(1, 8))
def test_a_thousand_runs_of_one_tenant_do_not_delay_anothers_one(many: int, slots: int) -> None:
    crowd = TenantQueue("crowd", [Waiting(f"c{number}") for number in range(many)], concurrency=1000, turn=7)
    lonely = TenantQueue("lonely", [Waiting("one")], concurrency=1, turn=3)
    assert choose([crowd, lonely], slots=slots)[0] == ("lonely", "one")
    # Served just now, it is next but one.
    later = TenantQueue("lonely", [Waiting("one")], concurrency=1, turn=8)
    assert ("lonely", "one") in choose([crowd, later], slots=max(2, slots))[:2]


@given(st.integers(1, 6), st.integers(1, 40))
def test_over_many_claims_tenants_get_the_same_share(tenants: int, rounds: int) -> None:
    turns = dict.fromkeys(range(tenants), 0)
    served: Counter[int] = Counter()
    for clock in range(1, tenants * rounds + 1):
        queue = [
            TenantQueue(str(one), [Waiting(f"{one}-{clock}")], concurrency=1, turn=turn)
            for one, turn in turns.items()
        ]
        ((tenant, _),) = choose(queue, slots=1)
        turns[int(tenant)] = clock
        served[int(tenant)] += 1
    assert set(served.values()) == {rounds}


def test_a_busy_session_holds_up_only_its_own_runs() -> None:
    tenant = TenantQueue("t", [Waiting("a", "s"), Waiting("b")], concurrency=2)
    assert choose([tenant], slots=2, busy_sessions={"s": 1}) == [("t", "b")]
