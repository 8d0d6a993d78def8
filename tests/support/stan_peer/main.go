// stan_peer: stan.go on a command line, for tests that compare natsync.streaming with it.
//
//	stan_peer URL CLUSTER CLIENT pub CHANNEL COUNT SIZE [async]
//	    publishes COUNT messages "N:xxx" of SIZE bytes, and prints "published COUNT SECONDS"
//	stan_peer URL CLUSTER CLIENT sub CHANNEL COUNT [OPTION=VALUE ...]
//	    prints "ready", then one line a message, then how long they took: "received COUNT SECONDS"
//
// Options of sub: start=new|first|last, sequence=N, delta=DURATION, since=NANOSECONDS, durable=NAME,
// queue=GROUP, inflight=N, ackwait=SECONDS, ack=no (never), quiet=yes (no line a message,
// acknowledged by stan.go itself),
// idle=DURATION (ends where no message came for so long), end=close|unsubscribe|conn.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/stan.go"
	"github.com/nats-io/stan.go/pb"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func publish(sc stan.Conn, channel string, count, size int, async bool) {
	padding := strings.Repeat("x", size)
	begin := time.Now()
	var acks sync.WaitGroup
	for n := 1; n <= count; n++ {
		data := []byte(fmt.Sprintf("%d:%s", n, padding))
		if len(data) > size && size > 0 {
			data = data[:size]
		}
		if !async {
			check(sc.Publish(channel, data))
			continue
		}
		acks.Add(1)
		_, err := sc.PublishAsync(channel, data, func(_ string, err error) {
			check(err)
			acks.Done()
		})
		check(err)
	}
	acks.Wait()
	fmt.Printf("published %d %f\n", count, time.Since(begin).Seconds())
}

func subscribe(sc stan.Conn, channel string, count int, given map[string]string) {
	var options []stan.SubscriptionOption
	switch given["start"] {
	case "first":
		options = append(options, stan.DeliverAllAvailable())
	case "last":
		options = append(options, stan.StartWithLastReceived())
	}
	if text, ok := given["sequence"]; ok {
		options = append(options, stan.StartAtSequence(uint64(number(text))))
	}
	if text, ok := given["delta"]; ok {
		delta, err := time.ParseDuration(text)
		check(err)
		options = append(options, stan.StartAtTimeDelta(delta))
	}
	if text, ok := given["since"]; ok {
		options = append(options, stan.StartAtTime(time.Unix(0, int64(number(text)))))
	}
	if name, ok := given["durable"]; ok {
		options = append(options, stan.DurableName(name))
	}
	if text, ok := given["inflight"]; ok {
		options = append(options, stan.MaxInflight(number(text)))
	}
	if text, ok := given["ackwait"]; ok {
		options = append(options, stan.AckWait(time.Duration(number(text))*time.Second))
	}
	if given["quiet"] != "yes" {
		// Acknowledged when it is shown: what waits in the channel below is nobody's yet.
		options = append(options, stan.SetManualAckMode())
	}
	idle := time.Hour
	if text, ok := given["idle"]; ok {
		var err error
		idle, err = time.ParseDuration(text)
		check(err)
	}
	came := make(chan *stan.Msg, 1024)
	handler := func(m *stan.Msg) { came <- m }
	var sub stan.Subscription
	var err error
	if queue, ok := given["queue"]; ok {
		sub, err = sc.QueueSubscribe(channel, queue, handler, options...)
	} else {
		sub, err = sc.Subscribe(channel, handler, options...)
	}
	check(err)
	fmt.Println("ready")
	var begin time.Time
	received := 0
	timer := time.NewTimer(idle)
loop:
	for received < count {
		select {
		case m := <-came:
			if received == 0 {
				begin = time.Now()
			}
			received++
			if given["quiet"] != "yes" {
				show(&m.MsgProto)
				if given["ack"] != "no" {
					check(m.Ack())
				}
				timer.Reset(idle)
			}
		case <-timer.C:
			break loop
		}
	}
	fmt.Printf("received %d %f\n", received, time.Since(begin).Seconds())
	switch given["end"] {
	case "close":
		check(sub.Close())
	case "unsubscribe":
		check(sub.Unsubscribe())
	}
}

func show(m *pb.MsgProto) {
	fmt.Printf("%d %d %t %d %s\n", m.Sequence, m.Timestamp, m.Redelivered, m.RedeliveryCount, m.Data)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 7 {
		log.Fatal("usage: stan_peer URL CLUSTER CLIENT pub|sub CHANNEL COUNT ...")
	}
	url, cluster, client, verb, channel, count := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], number(os.Args[6])
	nc, err := nats.Connect(url)
	check(err)
	defer nc.Close()
	sc, err := stan.Connect(cluster, client, stan.NatsConn(nc))
	check(err)
	if verb == "pub" {
		publish(sc, channel, count, number(os.Args[7]), len(os.Args) > 8)
	} else {
		given := map[string]string{}
		for _, text := range os.Args[7:] {
			name, value, _ := strings.Cut(text, "=")
			given[name] = value
		}
		subscribe(sc, channel, count, given)
	}
	check(sc.Close())
}
