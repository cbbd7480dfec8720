-- Version 2: a store may be spread over several databases. `hubbub store create` runs this after schema.sql, and
-- `hubbub store migrate` alone on a store of version 1. `store` is the same in all databases of one store, `number`
-- says which of them this is, from 0.

set local search_path = hubbub;

alter table state add column store uuid not null default gen_random_uuid(),
                  add column number int not null default 0,
                  add column databases int not null default 1;

-- Over how many databases the batches of a lot are spread. What the first database says holds, and never changes: a
-- batch that comes once more must find its id.
alter table lots add column databases int not null default 1;

create or replace function open_lots(wanted int[]) returns void language plpgsql security definer
    set search_path = hubbub, pg_temp as $$
declare
    wanted_lot int;
    spread int;
begin
    -- Ids that were imported lie in the first database, and may be of any lot.
    select case when state.imported then 1 else state.databases end into spread from state for update;
    for wanted_lot in
        select w.lot from unnest(wanted) as w (lot)
        where not exists (select from lots where lots.lot = w.lot)
          and not exists (select from closed_lots as c where c.cadence = w.lot % 4 and w.lot / 4 <= c.through)
        order by 1
    loop
        execute format('create table ids_%s (like ids)', wanted_lot);
        execute format('create unique index on ids_%s (id)', wanted_lot);
        execute format('alter table ids attach partition ids_%s for values in (%s)', wanted_lot, wanted_lot);
        insert into lots values (wanted_lot, spread);
    end loop;
end $$;

update state set version = 2, turn = turn + 1;
