-- Version 3, two things. `hubbub store create` runs this after schema_2.sql, `hubbub store migrate` on a store of version 2.
--
-- A batch counts in the pairs that were counted when it was taken, however late it is folded. Each row of the journal
-- says in which turn that was, and each pair in which turns it was counted: two bounds are added whenever it begins or
-- ends. Rows that were there before count as they would have, in the pairs that are counted now.
--
-- And a group in which all is new, as in nearly every one, is taken by a cheaper statement.

set local search_path = hubbub;

alter table journal add column turn bigint not null default 0;
alter table journal alter column turn drop default;
alter table metrics add column counted_in int8multirange not null default '{}';
update metrics set counted_in = '{[0,)}' where definition::jsonb ? 'metrics' and grace >= 0;

create or replace function take(known bigint, the_lots int[], the_ids uuid[], marks int[], body bytea, ends int[])
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
        insert into journal (body, turn) values (body, known);
        return;
    end if;
    insert into journal (body, turn)
        select string_agg(substring(body from u.begin_at + 1 for u.end_at - u.begin_at), ''::bytea order by u.i), known
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

-- Keep these ids and their batches, if every one of them is new. False, and nothing is kept, if any is not: then `take`
-- tells which. To ask first whether an id is there, as `on conflict` does for each, costs a sixth of all that a group
-- costs the server. The error is caught here, for the server would write an id into its log with one that gets out.
create function take_new(known bigint, the_lots int[], the_ids uuid[], marks int[], body bytea) returns boolean
    language plpgsql as $$
#variable_conflict use_variable
declare
    now_turn bigint;
begin
    lock table journal in row exclusive mode;  -- as in `take`
    select state.turn into now_turn from state;
    if now_turn <> known then
        raise exception 'what the collector knows is no longer so' using errcode = 'HB001';
    end if;
    begin
        insert into ids select * from unnest(the_lots, the_ids, marks);
    exception when unique_violation then
        return false;
    end;
    insert into journal (body, turn) values (body, known);
    return true;
end $$;

update state set version = 3, turn = turn + 1;
