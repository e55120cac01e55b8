/* SPDX-License-Identifier: BSD-2-Clause */
/* resources.c - creates the verbs objects from the device to the queue pair, and destroys them in reverse order. The
 * result of each verb is checked. */
#include "resources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int failed(const char *what, int error)
{
    fprintf(stderr, "%s: %s\n", what, strerror(error));
    return -1;
}

static int open_device(struct resources *r)
{
    const char *name = r->command.device;
    int count = 0, i = 0;
    struct ibv_device **list = ibv_get_device_list(&count);

    while (i < count && name && strcmp(ibv_get_device_name(list[i]), name) != 0)
        i++;
    if (i < count) {
        r->context = ibv_open_device(list[i]);
        printf("device is %s\n", ibv_get_device_name(list[i]));
        if (!r->context)
            failed("ibv_open_device", errno);
    } else {
        fprintf(stderr, "no RDMA device%s%s here: ibv_devices lists them; exs-soft-run brings one\n",
                name ? " " : "", name ? name : "");
    }
    if (list)
        ibv_free_device_list(list);
    return r->context ? 0 : -1;
}

/* Returns the preference of a GID of an Ethernet port; the highest is best. RoCE v2 can be routed, and two hosts are
 * most likely to have both an IPv4 address. */
static int fitness(const struct ibv_gid_entry *entry)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
        return 1;
    if (memcmp(entry->gid.raw, mapped, sizeof(mapped)) == 0)
        return 4;
    return entry->gid.raw[0] == 0xfe ? 2 : 3;
}

static void choose_gid(struct resources *r)
{
    struct ibv_gid_entry entry;
    int best = 0;

    for (int i = 0; i < r->port.gid_tbl_len; i++)
        if (ibv_query_gid_ex(r->context, (uint32_t)r->command.ib_port, (uint32_t)i, &entry, 0) == 0 &&
            fitness(&entry) > best) {
            best = fitness(&entry);
            r->gid_index = i;
        }
}

/* InfiniBand ports are addressed by LID. Ethernet ports have none and need a GID. */
static int choose_address(struct resources *r)
{
    uint8_t port = (uint8_t)r->command.ib_port;
    int rc = ibv_query_port(r->context, port, &r->port);

    r->gid_index = r->command.gid_index;
    if (rc != 0)
        return failed("ibv_query_port: is there such a port?", rc);
    if (r->gid_index == -1 && r->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
        choose_gid(r);
        if (r->gid_index == -1)
            return failed("the port has no GID: give its interface an address", EADDRNOTAVAIL);
    }
    if (r->gid_index != -1 && ibv_query_gid(r->context, port, r->gid_index, &r->gid) != 0)
        return failed("ibv_query_gid: is there such a GID?", errno);
    return 0;
}

int resources_open(struct resources *r)
{
    if (open_device(r) == -1 || choose_address(r) == -1)
        return -1;
    r->pd = ibv_alloc_pd(r->context);
    return r->pd ? 0 : failed("ibv_alloc_pd", errno);
}

int resources_memory(struct resources *r, size_t size, int access)
{
    r->buf = calloc(1, size);
    if (!r->buf)
        return failed("calloc", errno);
    r->mr = ibv_reg_mr(r->pd, r->buf, size, access);
    if (!r->mr)
        return failed("ibv_reg_mr: if memory is short, raise ulimit -l", errno);
    printf("MR was registered with addr=%p, lkey=0x%x, rkey=0x%x, flags=0x%x\n", (void *)r->buf, r->mr->lkey,
           r->mr->rkey, access);
    return 0;
}

int resources_qp(struct resources *r, enum ibv_qp_type type, uint32_t sends, uint32_t receives)
{
    struct ibv_qp_init_attr init = {
        .qp_type = type,
        .sq_sig_all = 1,
        .send_cq = r->cq,
        .recv_cq = r->cq,
        .cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1},
    };

    r->qp = ibv_create_qp(r->pd, &init);
    if (!r->qp)
        return failed("ibv_create_qp", errno);
    printf("QP was created, QP number=0x%x\n", r->qp->qp_num);
    return 0;
}

struct port_data resources_data(const struct resources *r)
{
    return (struct port_data){
        .address = (uintptr_t)r->buf,
        .rkey = r->mr->rkey,
        .qp_num = r->qp->qp_num,
        .psn = FIRST_PSN,
        .lid = r->port.lid,
        .gid = r->gid,
    };
}

struct ibv_ah_attr resources_path(const struct resources *r)
{
    struct ibv_ah_attr path = {.dlid = r->remote.lid, .port_num = (uint8_t)r->command.ib_port};

    if (r->gid_index != -1) {
        path.is_global = 1;
        path.grh.dgid = r->remote.gid;
        path.grh.sgid_index = (uint8_t)r->gid_index;
        path.grh.hop_limit = 64;
    }
    return path;
}

static void destroyed(int rc, const char *what, int *result)
{
    if (rc != 0)
        *result = failed(what, rc);
}

int resources_destroy(struct resources *r)
{
    int result = 0;

    if (r->ah)
        destroyed(ibv_destroy_ah(r->ah), "ibv_destroy_ah", &result);
    if (r->qp)
        destroyed(ibv_destroy_qp(r->qp), "ibv_destroy_qp", &result);
    if (r->mr)
        destroyed(ibv_dereg_mr(r->mr), "ibv_dereg_mr", &result);
    free(r->buf);
    if (r->cq)
        destroyed(ibv_destroy_cq(r->cq), "ibv_destroy_cq", &result);
    if (r->channel)
        destroyed(ibv_destroy_comp_channel(r->channel), "ibv_destroy_comp_channel", &result);
    if (r->pd)
        destroyed(ibv_dealloc_pd(r->pd), "ibv_dealloc_pd", &result);
    if (r->context)
        destroyed(ibv_close_device(r->context), "ibv_close_device", &result);
    if (r->sock != -1)
        close(r->sock);
    return result;
}

int program_main(int argc, char **argv, int (*run)(struct resources *r))
{
    struct resources r = {.sock = -1};
    int status = 1;

    if (command_read(&r.command, argc, argv) == -1)
        return 2;
    r.daemon = !r.command.server;
    r.sends = r.daemon;
    if (resources_open(&r) == 0 && (r.sock = passing_open(r.command.server, r.command.tcp_port)) != -1 &&
        run(&r) == 0)
        status = 0;
    if (resources_destroy(&r) == -1)
        status = 1;
    printf("\ntest status is %d\n", status);
    return status;
}
