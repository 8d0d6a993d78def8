// go_peer: nats.go at work on JetStream, for the test of what nats-dissect says of its packets.
//
//	go_peer URL [old]
//
// It prints as JSON what it did: for each table the rows, each with the columns that the test compares. With
// `old` each request has an inbox of its own. The last message is published on `the.end`.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
)

var did = map[string][][]any{}

func row(table string, values ...any) { did[table] = append(did[table], values) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func main() {
	options := []nats.Option{nats.Name("go_peer")}
	if len(os.Args) > 2 {
		options = append(options, nats.UseOldRequestStyle())
	}
	nc := must(nats.Connect(os.Args[1], options...))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	js := must(jetstream.New(nc))
	must(js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}))
	publish(ctx, js)
	acknowledge(ctx, js)
	ordered(ctx, js)
	keys(ctx, js)
	objects(ctx, js)
	service(nc)
	check(js.DeleteStream(ctx, "S"))
	check(nc.Publish("the.end", nil))
	check(nc.Flush())
	nc.Close()
	check(json.NewEncoder(os.Stdout).Encode(did))
}

func publish(ctx context.Context, js jetstream.JetStream) {
	for i := range 60 {
		id := fmt.Sprint(i / 2)
		ack := must(js.Publish(ctx, "s.one", []byte("x"), jetstream.WithMsgID(id)))
		row("publishes", "s.one", id, ack.Sequence, ack.Duplicate, nil)
	}
	var waiting []jetstream.PubAckFuture
	for range 20 {
		waiting = append(waiting, must(js.PublishAsync("s.two", []byte("y"))))
	}
	for _, future := range waiting {
		select {
		case ack := <-future.Ok():
			row("publishes", "s.two", nil, ack.Sequence, false, nil)
		case err := <-future.Err():
			log.Fatal(err)
		}
	}
	_, err := js.Publish(ctx, "s.one", nil, jetstream.WithExpectLastSequence(3))
	row("publishes", "s.one", nil, nil, false, code(err))
}

func code(err error) any {
	var refused *jetstream.APIError
	if errors.As(err, &refused) {
		return refused.ErrorCode
	}
	return nil
}

func acknowledge(ctx context.Context, js jetstream.JetStream) {
	config := jetstream.ConsumerConfig{Durable: "w", AckPolicy: jetstream.AckExplicitPolicy}
	worker := must(js.CreateConsumer(ctx, "S", config))
	messages := must(worker.Messages(jetstream.PullMaxMessages(10)))
	for done := 0; done < 50; {
		message := must(messages.Next())
		said, err := message.Metadata()
		check(err)
		var ack string
		switch sequence := said.Sequence.Stream; {
		case said.NumDelivered == 1 && sequence%20 == 0:
			ack, err = "nak", message.NakWithDelay(20*time.Millisecond)
		case said.NumDelivered == 1 && sequence%10 == 0:
			ack, err = "nak", message.Nak()
		case sequence%11 == 0:
			ack, err = "term", message.TermWithReason("bad")
		case sequence%5 == 1:
			check(message.InProgress())
			ack, err = "ack", message.DoubleAck(ctx)
		default:
			ack, err = "ack", message.Ack()
		}
		check(err)
		if ack != "nak" {
			done++
		}
		row("deliveries", "w", said.Sequence.Stream, said.Sequence.Consumer, said.NumDelivered, said.NumPending, ack)
	}
	messages.Stop()
}

func ordered(ctx context.Context, js jetstream.JetStream) {
	config := jetstream.OrderedConsumerConfig{FilterSubjects: []string{"s.two"}}
	reader := must(js.OrderedConsumer(ctx, "S", config))
	for message := range must(reader.Fetch(20)).Messages() {
		said := must(message.Metadata())
		row("deliveries", said.Consumer, said.Sequence.Stream, said.Sequence.Consumer, said.NumDelivered, said.NumPending, nil)
	}
}

func keys(ctx context.Context, js jetstream.JetStream) {
	bucket := must(js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "B", History: 5}))
	for i := range 5 {
		key := fmt.Sprintf("k.%d", i)
		row("kv", "put", key, must(bucket.Put(ctx, key, []byte("v"))))
	}
	revision := must(bucket.Create(ctx, "c", []byte("1")))
	row("kv", "create", "c", revision)
	revision = must(bucket.Update(ctx, "c", []byte("2"), revision))
	row("kv", "update", "c", revision)
	row("kv", "get", "c", must(bucket.Get(ctx, "c")).Revision())
	check(bucket.Delete(ctx, "k.1"))
	row("kv", "delete", "k.1", revision+1)
	check(bucket.Purge(ctx, "k.2"))
	row("kv", "purge", "k.2", revision+2)
	must(bucket.History(ctx, "c"))
	row("kv", "history", "c", nil)
	watcher := must(bucket.Watch(ctx, "k.*"))
	for entry := range watcher.Updates() {
		if entry == nil {
			break
		}
	}
	check(watcher.Stop())
	row("kv", "watch", "k.*", nil)
}

func objects(ctx context.Context, js jetstream.JetStream) {
	store := must(js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "O"}))
	// Small enough that no packet on loopback exceeds the snap length.
	chunks := &jetstream.ObjectMetaOptions{ChunkSize: 10_000}
	meta := jetstream.ObjectMeta{Name: "big", Opts: chunks}
	content := bytes.NewReader(bytes.Repeat([]byte("0123456789"), 2_500))
	made := must(store.Put(ctx, meta, content))
	row("objects", "put", "big", made.Size, made.Chunks, true)
	must(store.GetBytes(ctx, "big"))
	row("objects", "get", "big", made.Size, made.Chunks, true)
	check(store.Delete(ctx, "big"))
	row("objects", "delete", "big", nil, nil, nil)
}

func service(nc *nats.Conn) {
	adder := must(micro.AddService(nc, micro.Config{Name: "calculator", Version: "1.0.0"}))
	check(adder.AddEndpoint("add", micro.HandlerFunc(func(request micro.Request) {
		if len(request.Data()) == 0 {
			check(request.Error("400", "nothing to add", nil))
			return
		}
		check(request.Respond([]byte("3")))
	})))
	must(nc.Request("$SRV.INFO.calculator", nil, 10*time.Second))
	for _, body := range []string{"1+2", "2+1", ""} {
		must(nc.Request("add", []byte(body), 10*time.Second))
	}
	for _, side := range []string{"service", "client"} {
		row("services", side, "calculator", "1.0.0", "add", 3, 1)
	}
}
