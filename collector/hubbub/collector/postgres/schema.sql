-- The shared store of hubbub's collectors. Made by `hubbub store create`, never by hand: its version is checked.
-- No column has a time of day or an address. Every statement of a collector that others wait for is one call of a
-- function here, so that no lock that matters is ever held while the server waits for a collector.

create schema hubbub;
set local search_path = hubbub;

-- `turn` grows with every change of what collectors have in memory: day, terms, closed lots. `day` is the last one that
-- the clock was believed on. `accepts` counts how often the operator has said that the clock is right.
create table state (one int primary key check (one = 1), version int not null, turn bigint not null, day int not null,
                    min_reports int not null, accepts int not null, imported boolean not null);

create table metrics (metric_hash text primary key, short_hash bytea not null unique, definition text not null,
                      cadence int not null, grace int not null, longest_grace int not null, retention_days int not null,
                      keep_reports boolean not null, sealed_through int not null);

-- Ids lie in lots, one table each, dropped whole when the last of its batches can no longer come. A lot follows from a
-- batch's bytes alone (4 x epoch + cadence): never from a clock or a setting, in which two collectors may differ.
create table ids (lot int not null, id uuid not null, mark int not null) partition by list (lot);
create table lots (lot int primary key);
create table closed_lots (cadence int primary key, through int not null);
create table imported_ids (id uuid primary key, mark int not null, closes int not null);

-- One row for each group of batches. Deleted from and vacuumed often, never truncated: a reader's snapshot would lose it.
create table journal (seq bigint generated always as identity, body bytea not null)
    with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
          toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 20000,
          toast.autovacuum_vacuum_cost_delay = 0);
alter table journal alter column body set storage external;

create sequence revisions;
create table counts (metric_hash text not null references metrics, epoch int not null, num_reports bytea not null,
                     bit_counts bytea not null, revision bigint not null, crc bigint not null,
                     primary key (metric_hash, epoch));
create table handed_out (metric_hash text not null references metrics, epoch int not null, num_reports bytea not null,
                         bit_counts bytea not null, revision bigint not null, crc bigint not null,
                         primary key (metric_hash, epoch));
create table purged (metric_hash text not null references metrics, epoch int not null, num_reports bytea not null,
                     bit_counts bytea not null, day int not null, crc bigint not null,
                     primary key (metric_hash, epoch));
create table kept (metric_hash text not null references metrics, epoch int not null, cohorts bytea not null,
                   vectors bytea not null, crc bigint not null);
create index kept_by_epoch on kept (metric_hash, epoch);
create table tokens (hash bytea primary key, role text not null check (role in ('read', 'relay')), name text not null);
create table stopped (name text primary key);

-- The clock that all collectors go by.
create function wall_seconds() returns double precision language sql volatile
    as 'select extract(epoch from clock_timestamp())::double precision';

-- Keep the ids that are new and their batches, all in one transaction. Returns the others by number, with the marks
-- that came with their ids before. Batch i is body[ends[i - 1] .. ends[i]].
create function take(known bigint, the_lots int[], the_ids uuid[], marks int[], body bytea, ends int[])
    returns table (n int, before int) language plpgsql as $$
#variable_conflict use_variable
declare
    fresh uuid[];
    now_turn bigint;
    has_imported boolean;
begin
    -- Who closes a day waits for us, or we for it; and the next statement sees what it did.
    lock table journal in row exclusive mode;
    select state.turn, state.imported into now_turn, has_imported from state;
    if now_turn <> known then
        raise exception 'what the collector knows is no longer so' using errcode = 'HB001';
    end if;
    if has_imported then
        with made as (
            insert into ids select u.lot, u.id, u.mark from unnest(the_lots, the_ids, marks) as u (lot, id, mark)
            where not exists (select from imported_ids as m where m.id = u.id)
            on conflict do nothing returning ids.id)
        select array_agg(made.id) into fresh from made;
    else
        with made as (
            insert into ids select * from unnest(the_lots, the_ids, marks) on conflict do nothing returning ids.id)
        select array_agg(made.id) into fresh from made;
    end if;
    if cardinality(fresh) = cardinality(the_ids) then
        insert into journal (body) values (body);
        return;
    end if;
    insert into journal (body)
        select string_agg(substring(body from u.begin_at + 1 for u.end_at - u.begin_at), ''::bytea order by u.i)
        from (select id, i, end_at, coalesce(lag(end_at) over (order by i), 0) as begin_at
              from unnest(the_ids, ends) with ordinality as g (id, end_at, i)) as u
        join unnest(fresh) as f (id) on f.id = u.id
        having count(*) > 0;
    return query
        select u.i::int, coalesce(i.mark, m.mark)
        from unnest(the_lots, the_ids) with ordinality as u (lot, id, i)
        left join unnest(fresh) as f (id) on f.id = u.id
        left join ids as i on i.lot = u.lot and i.id = u.id
        left join imported_ids as m on m.id = u.id
        where f.id is null;
end $$;

-- Make tables for lots that have none, unless they are closed: a closed lot is never made again.
create function open_lots(wanted int[]) returns void language plpgsql security definer
    set search_path = hubbub, pg_temp as $$
declare
    wanted_lot int;
begin
    perform from state for update;
    for wanted_lot in
        select w.lot from unnest(wanted) as w (lot)
        where not exists (select from lots where lots.lot = w.lot)
          and not exists (select from closed_lots as c where c.cadence = w.lot % 4 and w.lot / 4 <= c.through)
        order by 1
    loop
        execute format('create table ids_%s (like ids)', wanted_lot);
        execute format('create unique index on ids_%s (id)', wanted_lot);
        execute format('alter table ids attach partition ids_%s for values in (%s)', wanted_lot, wanted_lot);
        insert into lots values (wanted_lot);
    end loop;
end $$;

-- A day is over: close epochs, drop the lots whose ids nobody will ask for again. False if somebody else has done so.
create function turn_day(known bigint, today int, hashes text[], sealed int[], closed int[]) returns boolean
    language plpgsql security definer set search_path = hubbub, pg_temp as $$
declare
    old_lot int;
begin
    lock table journal in share row exclusive mode;
    perform from state where turn = known and day < today for update;
    if not found then
        return false;
    end if;
    update metrics set sealed_through = greatest(metrics.sealed_through, s.through)
        from unnest(hashes, sealed) as s (metric_hash, through) where metrics.metric_hash = s.metric_hash;
    insert into closed_lots select c.i - 1, c.through from unnest(closed) with ordinality as c (through, i)
        on conflict (cadence) do update set through = greatest(closed_lots.through, excluded.through);
    for old_lot in
        delete from lots using closed_lots as c
        where c.cadence = lots.lot % 4 and lots.lot / 4 <= c.through returning lots.lot
    loop
        execute format('drop table ids_%s', old_lot);
    end loop;
    delete from imported_ids where closes <= today;
    update state set day = today, turn = turn + 1, imported = exists (select from imported_ids);
    return true;
end $$;

-- The operator says that the clock is right. If days were counted that have not come yet, they are still to come; what
-- was closed up to now stays closed, for the ids that tell duplicates are gone.
create function accept_clock(today int, current_epochs int[]) returns void language plpgsql security definer
    set search_path = hubbub, pg_temp as $$
begin
    lock table journal in share row exclusive mode;
    if (select day from state) > today then
        update metrics set sealed_through = least(sealed_through, current_epochs[cadence + 1]);
        update closed_lots set through = least(through, current_epochs[cadence + 1]);
        update state set day = today;
    end if;
    update state set turn = turn + 1, accepts = accepts + 1;
end $$;

insert into state values (1, 1, 1, 0, 0, 0, false);
