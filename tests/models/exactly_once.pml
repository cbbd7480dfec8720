/* A batch, two collectors, one database: if it was answered it counts once, and whatever happens never twice.

   The client sends its batch and, as long as no answer comes, sends it again, to either collector, while earlier
   attempts may still be under way. An attempt is one transaction in the database; its answer may be lost, because the
   collector died, or the connection. (An attempt that dies before its transaction is one that was never made.) Counts
   are folded from the journal by whoever comes first, and a fold that dies is rolled back. The epoch is closed at any
   moment: its ids are dropped, and nothing of it is taken any more. Other registries begin and end a pair at any moment,
   and the batch counts in it if it was taken while it was counted, whenever it is folded. What one transaction does is one step here, as the
   database's locks make it; what two do is two. Batches meet in nothing but transactions, so one shows what can happen
   to any.

   Left out: that a group of batches is one transaction, several databases, deletion after the retention, and all of
   what a disk may do; the torture tests run these on real servers.

   Planted bugs, by -D: NO_DEDUP, TWO_TRANSACTIONS, LOT_FROM_CLOCK, CLOSED_LOOKED_UP_BEFORE, FOLD_IN_TWO,
   PAIRS_OF_THE_FOLD. */

#ifndef ATTEMPTS
#define ATTEMPTS 4
#endif
#ifndef FOLDS
#define FOLDS 3
#endif

bool known[2];      /* its id, by lot: the key of the table */
byte journal = 0;
byte counts = 0;
bool closed = false;
bool answered = false;
bool refused = false;
bool pair_now = false;     /* whether the registry in force has it */
bool pair_then = false;    /* and had it when the batch was taken: its row says so */
byte in_pair = 0;

#ifdef LOT_FROM_CLOCK
#define LOT (_pid % 2)     /* the collectors' clocks are a day apart */
#else
#define LOT 0              /* it follows from the batch's bytes */
#endif
#define COUNTED (journal + counts)
#define RIGHT assert(COUNTED <= 1 && (!answered || COUNTED == 1) && in_pair == (pair_then -> counts : 0))
#ifdef PAIRS_OF_THE_FOLD
#define COUNT_PAIR in_pair = in_pair + (pair_now -> journal : 0)
#else
#define COUNT_PAIR in_pair = in_pair + (pair_then -> journal : 0)
#endif

active [ATTEMPTS] proctype attempt() {
    bool too_late = false;
    bool is_new = false;
end:
    !answered && !refused;     /* the client has no answer yet */
#ifdef CLOSED_LOOKED_UP_BEFORE
    too_late = closed;
#endif
    d_step {
#ifndef CLOSED_LOOKED_UP_BEFORE
        too_late = closed;
#endif
        is_new = !known[LOT];
#ifdef NO_DEDUP
        is_new = true;
#endif
        if
        :: !too_late && is_new ->
            known[LOT] = true;
            pair_then = pair_now;
#ifndef TWO_TRANSACTIONS
            journal++
#endif
        :: else
        fi;
        RIGHT
    }
#ifdef TWO_TRANSACTIONS
    if
    :: goto over               /* the collector dies between the two */
    :: d_step {
        if
        :: !too_late && is_new -> journal++
        :: else
        fi;
        RIGHT
    }
    fi;
#endif
    if
    :: d_step { too_late -> refused = true; RIGHT }
    :: d_step { !too_late -> answered = true; RIGHT }
    :: true                    /* the answer is lost */
    fi;
over:
    skip
}

active [FOLDS] proctype fold() {
#ifdef FOLD_IN_TWO
    d_step { COUNT_PAIR; counts = counts + journal };
    if
    :: journal = 0
    :: true                    /* dies between the two */
    fi;
    RIGHT
#else
    d_step { COUNT_PAIR; counts = counts + journal; journal = 0; RIGHT }
#endif
}

active proctype reload() {
    pair_now = true;
    pair_now = false
}

active proctype close() {
    d_step { closed = true; known[0] = false; known[1] = false }
}
