/* A client of an SQLite store whose disk does not confirm what was written: it is told so, nothing
 * is answered before all is synced anew, and what is answered then survives a power cut. */
#include "cut_vfs.h"
#include "engines.h"
#include "errands.h"

#include <stdio.h>

#define URL "sqlite:" ERRANDS_DB

enum { FOR_EVER = INT32_MAX };

static lw_engine *open_owner(void) {
    return OPEN_ON(URL, .workers = 1);
}

static lw_engine *open_client(void) {
    return OPEN_ON(URL, .role = LW_ROLE_CLIENT);
}

static int try_submit(lw_engine *engine, const char *key, lw_error *err) {
    return lw_submit(engine, LW_TASK(.kind = "mail", .key = key), NULL, err);
}

static void fail_sync(uint64_t count) {
    cut_vfs_order((struct cut_order){CUT_ERROR, CUT_SYNC, 1, count});
}

static void cut_power(lw_engine *one, lw_engine *other) {
    cut_vfs_order((struct cut_order){CUT_POWER, CUT_ANY, 1, 1});
    lw_submit(one, LW_TASK(.kind = "mail", .key = "lost"), NULL, NULL);
    assert_true(cut_vfs_is_dark());
    lw_close(one);
    lw_close(other);
}

static void assert_found(const char *key) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_engine *reader = OPEN_ON(URL, .role = LW_ROLE_READER);
    assert_status(lw_find(reader, "mail", key, &s), LW_OK);
    lw_snapshot_clear(&s);
    close_engine(reader);
}

TEST(after_a_failed_sync_a_client_answers_nothing_before_all_is_synced_anew) {
    lw_error err = {0};
    lw_snapshot s = LW_SNAPSHOT_INIT;
    cut_vfs_install();
    close_engine(open_owner());
    lw_engine *client = open_client();
    assert_status(try_submit(client, "before", NULL), LW_OK);
    uint64_t opened = cut_vfs_opened();
    fail_sync(FOR_EVER);
    assert_status(try_submit(client, "a", &err), LW_EUNSURE);
    assert_sentence(&err, LW_EUNSURE, "not confirm");
    assert_status(try_submit(client, "b", &err), LW_ESYSTEM); /* it was not even tried */
    assert_sentence(&err, LW_ESYSTEM, "not confirm");
    assert_status(lw_cancel(client, 1000000000000001), LW_ESYSTEM);
    assert_status(lw_find(client, "mail", "before", &s), LW_OK); /* reads go on */
    assert_int_equal(cut_vfs_opened(), opened);

    cut_vfs_end_orders();
    uint64_t truncated = cut_vfs_calls(CUT_TRUNCATE);
    assert_status(try_submit(client, "a", NULL), LW_OK);
    assert_int_equal(cut_vfs_opened(), opened + 1);
    CHECK(cut_vfs_calls(CUT_TRUNCATE) > truncated);
    assert_status(try_submit(client, "c", NULL), LW_OK);
    assert_int_equal(cut_vfs_opened(), opened + 1);
    lw_snapshot_clear(&s);
    close_engine(client);
}

TEST(a_question_whose_sync_failed_is_unsure_too) {
    cut_vfs_install();
    close_engine(open_owner());
    lw_engine *client = open_client();
    lw_id id = SUBMIT(client, .kind = "mail");
    uint64_t opened = cut_vfs_opened();
    fail_sync(1);
    assert_status(lw_cancel(client, id), LW_EUNSURE);
    assert_status(lw_cancel(client, id), LW_PENDING);
    assert_int_equal(cut_vfs_opened(), opened + 1);
    close_engine(client);
}

TEST(what_a_client_was_told_after_a_failed_sync_survives_a_power_cut) {
    cut_vfs_install();
    for (int lost = 1; lost <= 4; lost++) {
        close_engine(open_owner());
        lw_engine *client = open_client();
        fail_sync((uint64_t)lost);
        int rc = LW_EUNSURE;
        for (int i = 0; i < 10 && rc != LW_OK; i++)
            rc = try_submit(client, "a", NULL);
        assert_status(rc, LW_OK);
        cut_power(client, NULL);
        cut_vfs_restore(CUT_LEFT_NOTHING, 0);
        assert_found("a");
    }
}

/* Its commit is still in the system's memory, in a file that nobody else has open. */
TEST(what_a_client_leaves_behind_that_gives_up_is_not_built_upon) {
    cut_vfs_install();
    for (int lost = 1; lost <= 4; lost++) {
        close_engine(open_owner());
        lw_engine *client = open_client();
        assert_status(try_submit(client, "before", NULL), LW_OK);
        fail_sync((uint64_t)lost);
        assert_status(try_submit(client, "a", NULL), LW_EUNSURE);
        lw_close(client);
        cut_vfs_end_orders();
        client = open_client();
        CHECK(try_submit(client, "b", NULL) == LW_OK);
        cut_power(client, NULL);
        cut_vfs_restore(CUT_LEFT_NOTHING, 0);
        assert_found("b");
        remove_store();
    }
}

/* It is not told of a client's trouble, and need not be: it writes over the same place. */
TEST(what_the_owner_says_after_a_clients_failed_sync_survives_a_power_cut) {
    cut_vfs_install();
    lw_engine *owner = open_owner(), *client = open_client();
    fail_sync(1);
    assert_status(try_submit(client, "a", NULL), LW_EUNSURE);
    assert_status(try_submit(owner, "b", NULL), LW_OK);
    cut_power(client, owner);
    cut_vfs_restore(CUT_LEFT_NOTHING, 0);
    assert_found("b");
}
