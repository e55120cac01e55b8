/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd_threads.c - the crowd's server with blocking calls: one thread for each direction of each line.
 *
 * A thread holds the lock except during calls of the library. `more` wakes these threads when there is more to do;
 * `changed` wakes the main thread when something is done.
 */
#include "crowd.h"

#include <sys/eventfd.h>

static void tell_main(struct crowd *crowd)
{
    must(eventfd_write(crowd->changed, 1));
}

static void send_one(struct line *line, size_t length)
{
    struct crowd *crowd = line->crowd;
    char *piece = line_piece(line, length);

    line->out_started += length;
    line->sends++;
    pthread_mutex_unlock(&crowd->lock);
    ssize_t sent = exs_blocking_send(line->socket, piece, length, 0, NULL);
    int error = sent == -1 ? errno : 0;
    free(piece);
    pthread_mutex_lock(&crowd->lock);
    line->sends--;
    expect(crowd, sent == -1 || sent == (ssize_t)length, "peer %d: %zd of %zu bytes sent", line->peer, sent,
           length);
    line_sent(line, sent == -1 ? 0 : length, error);
    pthread_cond_broadcast(&crowd->more);
    tell_main(crowd);
}

static void *send_all(void *arg)
{
    struct line *line = arg;
    struct crowd *crowd = line->crowd;
    size_t length;

    pthread_mutex_lock(&crowd->lock);
    while (!line->closing)
        if ((length = line_next_send(line)) != 0)
            send_one(line, length);
        else
            pthread_cond_wait(&crowd->more, &crowd->lock);
    pthread_mutex_unlock(&crowd->lock);
    return NULL;
}

static void receive_one(struct line *line, size_t length)
{
    struct crowd *crowd = line->crowd;
    char *buffer = new_buffer(length);

    if (crowd->cell->socktype == SOCK_STREAM)
        line->in_asked += length;
    line->receives++;
    pthread_mutex_unlock(&crowd->lock);
    ssize_t got = exs_blocking_recv(line->socket, buffer, length, 0, NULL);
    int error = got == -1 ? errno : 0;
    pthread_mutex_lock(&crowd->lock);
    line->receives--;
    line_received(line, buffer, length, got == -1 ? 0 : (size_t)got, error);
    if (crowd->cell->socktype == SOCK_SEQPACKET)
        line->in_asked = line->in_got;
    free(buffer);
    tell_main(crowd);
}

static void receive_hello(struct line *line)
{
    uint64_t peer;
    ssize_t got = exs_blocking_recv(line->socket, &peer, sizeof peer,
                                    line->crowd->cell->socktype == SOCK_STREAM ? MSG_WAITALL : 0, NULL);

    expect(line->crowd, got == HELLO, "hello: %zd, %s", got, strerror(errno));
    pthread_mutex_lock(&line->crowd->lock);
    line_known(line, (int)peer);
}

static void answer(struct line *line)
{
    struct crowd *crowd = line->crowd;

    line->answered = true;
    line->out_total += owed_last(crowd->cell);
    pthread_cond_broadcast(&crowd->more);
    while (line->out_done < line->out_total && line->out_end == 0)
        pthread_cond_wait(&crowd->more, &crowd->lock);
    pthread_mutex_unlock(&crowd->lock);
    must(exs_shutdown(line->socket, SHUT_WR, EXS_BLOCK, NULL, NULL));
    pthread_mutex_lock(&crowd->lock);
}

static bool is_sending(const struct line *line)
{
    return line->sends || (line->out_end == 0 && line->out_done < line->out_total);
}

static void end_line(struct line *line)
{
    struct crowd *crowd = line->crowd;

    if (line->ending == HALF_CLOSES && line->in_end == THE_END)
        answer(line);
    while (is_sending(line))
        pthread_cond_wait(&crowd->more, &crowd->lock);
    line->closing = true;
    pthread_cond_broadcast(&crowd->more);
    pthread_mutex_unlock(&crowd->lock);
    thread_join(line->sender);
    line_end(line);
    must(exs_blocking_close(line->socket));
    pthread_mutex_lock(&crowd->lock);
    line->closed = true;
    tell_main(crowd);
}

static void *receive_all(void *arg)
{
    struct line *line = arg;
    struct crowd *crowd = line->crowd;
    size_t length;

    receive_hello(line);
    line->sender = thread_start(send_all, line);
    while (!line->in_end)
        if ((length = line_next_receive(line)) != 0)
            receive_one(line, length);
        else
            pthread_cond_wait(&crowd->more, &crowd->lock);
    end_line(line);
    pthread_mutex_unlock(&crowd->lock);
    return NULL;
}

void threads_accept(struct crowd *crowd)
{
    pthread_mutex_unlock(&crowd->lock);
    for (int i = 0; i < crowd->cell->peers; i++) {
        int socket = exs_blocking_accept(crowd->listener, NULL, NULL);
        must(socket);
        pthread_mutex_lock(&crowd->lock);
        line_open(crowd, socket, -1);
        crowd->lines[i].receiver = thread_start(receive_all, &crowd->lines[i]);
        pthread_mutex_unlock(&crowd->lock);
    }
    pthread_mutex_lock(&crowd->lock);
}

void threads_join(struct crowd *crowd)
{
    pthread_mutex_unlock(&crowd->lock);
    for (int i = 0; i < crowd->count; i++)
        thread_join(crowd->lines[i].receiver);
    pthread_mutex_lock(&crowd->lock);
}
